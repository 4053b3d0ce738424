"""The operators: a room for each, and a row."""

from ._shared.convolution_rules import ATTRIBUTES
from ._shared.operator import Operator

_ROWS = (
    Operator("nonzero_coordinates", "nonzero"),
    Operator("quantized_linear_convolution", "qconv", ATTRIBUTES),
    Operator("convolution_integer", "intconv", ATTRIBUTES),
    Operator("element_wise_quantize_linear", "quantize"),
    Operator("element_wise_dequantize_linear", "dequantize"),
    Operator("element_wise_quantized_linear_add", "qadd"),
    Operator("element_wise_quantized_linear_multiply", "qmul"),
    Operator("quantized_lookup", "lookup"),
    Operator("dynamic_quantize_linear", "dynamic"),
)
OPERATORS = {row.name: row for row in _ROWS}
