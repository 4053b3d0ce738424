"""The registry: one entry for each operator, with its names and its family's definition."""

from ..format.vectors import SIGNATURES
from . import (
    binary,
    convolution,
    dynamic_quantize,
    element_wise,
    exact_floats,
    lookup,
    matmul,
    nonzero,
    pooling,
)
from .operator import Definition, Operator

# Name, prefix of ids, definition, and the type of the ONNX node that computes the same.
_ENTRIES: tuple[tuple[str, str, Definition, str], ...] = (
    ("nonzero_coordinates", "nonzero", nonzero.DEFINITION, "NonZero"),
    ("quantized_linear_convolution", "qconv", convolution.QUANTIZED, "QLinearConv"),
    ("quantized_linear_convolution_add", "qconvadd", convolution.QUANTIZED_SUM, ""),
    ("convolution_integer", "intconv", convolution.INTEGER, "ConvInteger"),
    ("element_wise_quantize_linear", "quantize", element_wise.QUANTIZE, "QuantizeLinear"),
    ("element_wise_dequantize_linear", "dequantize", element_wise.DEQUANTIZE, "DequantizeLinear"),
    ("element_wise_quantized_linear_add", "qadd", binary.ADD, "QLinearAdd"),
    ("element_wise_quantized_linear_multiply", "qmul", binary.MULTIPLY, "QLinearMul"),
    ("quantized_lookup", "lookup", lookup.DEFINITION, ""),
    ("dynamic_quantize_linear", "dynamic", dynamic_quantize.DEFINITION, "DynamicQuantizeLinear"),
    ("quantized_linear_average_pooling", "avgpool", pooling.AVERAGE, "QLinearAveragePool"),
    (
        "quantized_linear_global_average_pooling",
        "gavgpool",
        pooling.GLOBAL_AVERAGE,
        "QLinearGlobalAveragePool",
    ),
    ("max_pooling", "maxpool", pooling.MAXIMUM, "MaxPool"),
    ("matrix_multiply_integer", "intmatmul", matmul.INTEGER, "MatMulInteger"),
    ("quantized_linear_matrix_multiply", "qmatmul", matmul.QUANTIZED, "QLinearMatMul"),
    ("matrix_multiply_integer_to_float", "floatmatmul", matmul.TO_FLOAT, "MatMulIntegerToFloat"),
    ("exact_function", "exact", exact_floats.FUNCTION, ""),
    ("exact_sum", "exactsum", exact_floats.SUM, ""),
)
OPERATORS = {entry[0]: Operator(*entry) for entry in _ENTRIES}
SIGNATURES.update({name: operator.signature for name, operator in OPERATORS.items()})
