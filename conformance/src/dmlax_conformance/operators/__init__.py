"""The operators: a room for each, and a row."""

from ._shared.convolution_rules import ATTRIBUTES
from ._shared.operator import Operator
from ._shared.pooling_rules import ATTRIBUTES as POOL

_ROWS = (
    Operator("nonzero_coordinates", "nonzero", "NonZero", is_written_out=True),
    Operator(
        "quantized_linear_convolution", "qconv", "QLinearConv", ATTRIBUTES, is_written_out=True
    ),
    Operator("quantized_linear_convolution_add", "qconvadd"),
    Operator("convolution_integer", "intconv", "ConvInteger", ATTRIBUTES, is_written_out=True),
    Operator("element_wise_quantize_linear", "quantize", "QuantizeLinear", is_written_out=True),
    Operator(
        "element_wise_dequantize_linear", "dequantize", "DequantizeLinear", is_written_out=True
    ),
    Operator("element_wise_quantized_linear_add", "qadd", "QLinearAdd"),
    Operator("element_wise_quantized_linear_multiply", "qmul", "QLinearMul"),
    Operator("quantized_lookup", "lookup"),
    Operator("dynamic_quantize_linear", "dynamic", "DynamicQuantizeLinear"),
    Operator(
        "quantized_linear_average_pooling",
        "avgpool",
        "QLinearAveragePool",
        (*POOL, "IncludePadding"),
    ),
    Operator("quantized_linear_global_average_pooling", "gavgpool", "QLinearGlobalAveragePool"),
    Operator("max_pooling", "maxpool", "MaxPool", POOL, "MAX_POOLING2"),
    Operator("matrix_multiply_integer", "intmatmul", "MatMulInteger"),
    Operator(
        "quantized_linear_matrix_multiply",
        "qmatmul",
        "QLinearMatMul",
        only_in_calls=("BiasTensor",),
    ),
    Operator("matrix_multiply_integer_to_float", "floatmatmul", "MatMulIntegerToFloat"),
)
OPERATORS = {row.name: row for row in _ROWS}
