"""The operators: a room for each, and a row."""

from ._shared.convolution_rules import ATTRIBUTES
from ._shared.operator import Operator
from ._shared.pooling_rules import ATTRIBUTES as POOL

_ROWS = (
    Operator("nonzero_coordinates", "nonzero", is_written_out=True),
    Operator("quantized_linear_convolution", "qconv", ATTRIBUTES, is_written_out=True),
    Operator("quantized_linear_convolution_add", "qconvadd"),
    Operator("convolution_integer", "intconv", ATTRIBUTES, is_written_out=True),
    Operator("element_wise_quantize_linear", "quantize", is_written_out=True),
    Operator("element_wise_dequantize_linear", "dequantize", is_written_out=True),
    Operator("element_wise_quantized_linear_add", "qadd"),
    Operator("element_wise_quantized_linear_multiply", "qmul"),
    Operator("quantized_lookup", "lookup"),
    Operator("dynamic_quantize_linear", "dynamic"),
    Operator("quantized_linear_average_pooling", "avgpool", (*POOL, "IncludePadding")),
    Operator("quantized_linear_global_average_pooling", "gavgpool"),
    Operator("max_pooling", "maxpool", POOL, "MAX_POOLING2"),
    Operator("matrix_multiply_integer", "intmatmul"),
    Operator("quantized_linear_matrix_multiply", "qmatmul", only_in_calls=("BiasTensor",)),
    Operator("matrix_multiply_integer_to_float", "floatmatmul"),
)
OPERATORS = {row.name: row for row in _ROWS}
