"""The meaning of a quantized convolution."""

from itertools import product

from ...format.tensors import Tensor
from . import floats
from .call_rules import Inputs
from .convolution import Windows, accumulators, parameter
from .rounding import requantize, requantize_float32, wrap_int32


def quantized_linear_convolution(
    inputs: Inputs, windows: Windows, dtype: str, arithmetic: str = "exact"
) -> Tensor:
    """Return the quantized output; `arithmetic` is `exact` or `float32`."""
    sizes, sums = accumulators(inputs, windows)
    zero_point = parameter(inputs.get("OutputZeroPointTensor"), 0)
    bias = [parameter(inputs.get("BiasTensor"), c) for c in range(sizes[1])]
    scales = [_scales(inputs, c) for c in range(sizes[1])]
    channels = (place[1] for place in product(*map(range, sizes)))
    words = (
        _requantize(wrap_int32(total + bias[c]), scales[c], zero_point, dtype, arithmetic)
        for total, c in zip(sums, channels, strict=True)
    )
    return Tensor(dtype, sizes, tuple(words))


def _requantize(
    accumulator: int, scales: tuple[int, int, int], zero_point: int, dtype: str, arithmetic: str
) -> int:
    if arithmetic == "float32":
        return requantize_float32(accumulator, scales, zero_point, dtype)
    sx, sw, sy = (floats.decode(word, "float32").value for word in scales)
    return requantize(accumulator, (sx, sw, sy), zero_point, dtype)


def _scales(inputs: Inputs, channel: int) -> tuple[int, int, int]:
    sx, sw, sy = (inputs[f"{name}ScaleTensor"] for name in ("Input", "Filter", "Output"))
    return parameter(sx, 0), parameter(sw, channel), parameter(sy, 0)
