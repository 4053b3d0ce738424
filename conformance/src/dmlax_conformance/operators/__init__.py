"""The operators: a room for each, and a row."""

from . import (
    convolution_integer,
    element_wise_dequantize_linear,
    element_wise_quantize_linear,
    nonzero_coordinates,
    quantized_linear_convolution,
)
from ._shared.operator import Operator

OPERATORS: dict[str, Operator] = {
    room.OPERATOR.name: room.OPERATOR
    for room in (
        nonzero_coordinates,
        quantized_linear_convolution,
        convolution_integer,
        element_wise_quantize_linear,
        element_wise_dequantize_linear,
    )
}
