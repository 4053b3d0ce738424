"""The two element-wise operators in steps, each of which a bug can replace."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ...operators._shared import floats
from ...operators._shared.floats import Real
from .rounding import Rounding
from .steps import Array, Call, Outputs, Sizes, reals, words


def repeated(parameter: Array, sizes: Sizes) -> Array:
    """Repeat along sizes of 1; sizes align on the right."""
    return np.broadcast_to(parameter, sizes)


def no_zero_point(x: Array, dtype: str) -> Array:
    """Return what stands for a zero point that is absent."""
    return np.zeros((), dtype)


def divided(x: Real, scale: Fraction, dtype: str) -> Real:
    """Return the exact quotient; the sign of the scale turns an infinity."""
    if x.kind != "finite":
        return Real(x.negative != (scale < 0), kind=x.kind)
    return floats.exactly(x.value / scale)


@dataclass(frozen=True)
class Quantize:
    """The steps of quantizing, in order."""

    spread: Callable[[Array, Sizes], Array] = repeated
    absent: Callable[[Array, str], Array] = no_zero_point
    divide: Callable[[Real, Fraction, str], Real] = divided
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return clamp(round(input / scale) + zero point)."""
        x, dtype = call.inputs["InputTensor"], call.outputs["OutputTensor"].dtype
        zero = call.inputs.get("ZeroPointTensor")
        zero = self.absent(x, dtype) if zero is None else zero
        scales = reals(self.spread(call.inputs["ScaleTensor"], x.shape))
        zeros = words(self.spread(zero, x.shape))
        found = [
            self.rounding(self.divide(number, scale.value, x.dtype.name), point, dtype)
            for number, scale, point in zip(reals(x), scales, zeros, strict=True)
        ]
        return {"OutputTensor": np.array(found, dtype).reshape(x.shape)}


def difference_times_scale(
    word: int, zero_point: int, scale: Fraction, source: str, dtype: str
) -> int:
    """Return the bits of (word - zero point) * scale, rounded once."""
    return floats.encode(floats.exactly((word - zero_point) * scale), dtype)


@dataclass(frozen=True)
class Dequantize:
    """The steps of dequantizing, in order."""

    spread: Callable[[Array, Sizes], Array] = repeated
    absent: Callable[[Array, str], Array] = no_zero_point
    convert: Callable[[int, int, Fraction, str, str], int] = difference_times_scale

    def __call__(self, call: Call) -> Outputs:
        """Return (input - zero point) * scale."""
        x, scale = call.inputs["InputTensor"], call.inputs["ScaleTensor"]
        source, dtype = x.dtype.name, scale.dtype.name
        zero = call.inputs.get("ZeroPointTensor")
        zero = self.absent(x, source) if zero is None else zero
        scales, zeros = reals(self.spread(scale, x.shape)), words(self.spread(zero, x.shape))
        found = [
            self.convert(word, point, own.value, source, dtype)
            for word, own, point in zip(words(x), scales, zeros, strict=True)
        ]
        bits = np.array(found, f"uint{8 * scale.dtype.itemsize}")
        return {"OutputTensor": bits.view(scale.dtype).reshape(x.shape)}
