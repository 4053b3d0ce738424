"""The operators: a room for each, and a row."""

from ._shared.convolution_rules import ATTRIBUTES
from ._shared.operator import Operator

_ROWS = (
    Operator("nonzero_coordinates", "nonzero"),
    Operator("quantized_linear_convolution", "qconv", ATTRIBUTES),
    Operator("convolution_integer", "intconv", ATTRIBUTES),
    Operator("element_wise_quantize_linear", "quantize"),
    Operator("element_wise_dequantize_linear", "dequantize"),
    Operator("matrix_multiply_integer", "intmatmul"),
    Operator("quantized_linear_matrix_multiply", "qmatmul", only_in_calls=("BiasTensor",)),
    Operator("matrix_multiply_integer_to_float", "floatmatmul"),
)
OPERATORS = {row.name: row for row in _ROWS}
