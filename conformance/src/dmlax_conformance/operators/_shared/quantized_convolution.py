"""The meaning of a quantized convolution."""

from collections.abc import Callable
from itertools import product

from ...format.tensors import Tensor
from . import floats
from .call_rules import Inputs
from .convolution import Windows, accumulators, parameter
from .rounding import multiply, requantize_float32, wrap_int32


def quantized_linear_convolution(
    inputs: Inputs, windows: Windows, dtype: str, arithmetic: str = "exact"
) -> Tensor:
    """Return the quantized output; `arithmetic` is `exact` or `float32`."""
    sizes, sums = accumulators(inputs, windows)
    zero_point = parameter(inputs.get("OutputZeroPointTensor"), 0)
    bias = [parameter(inputs.get("BiasTensor"), c) for c in range(sizes[1])]
    rounds = [_rounding(_scales(inputs, c), zero_point, dtype, arithmetic) for c in range(sizes[1])]
    channels = (place[1] for place in product(*map(range, sizes)))
    words = (
        rounds[c](wrap_int32(total + bias[c])) for total, c in zip(sums, channels, strict=True)
    )
    return Tensor(dtype, sizes, tuple(words))


def _rounding(
    scales: tuple[int, int, int], zero_point: int, dtype: str, arithmetic: str
) -> Callable[[int], int]:
    """Return the function that rounds the accumulators of a channel."""
    if arithmetic == "float32":
        return lambda total: requantize_float32(total, scales, zero_point, dtype)
    sx, sw, sy = (floats.decode(word, "float32").value for word in scales)
    multiplier = sx * sw / sy
    return lambda total: multiply(total, multiplier, zero_point, dtype)


def _scales(inputs: Inputs, channel: int) -> tuple[int, int, int]:
    sx, sw, sy = (inputs[f"{name}ScaleTensor"] for name in ("Input", "Filter", "Output"))
    return parameter(sx, 0), parameter(sw, channel), parameter(sy, 0)
