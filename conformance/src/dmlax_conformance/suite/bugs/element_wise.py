"""The two element-wise operators in steps, each of which a bug can replace."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ...operators._shared import floats
from ...operators._shared.floats import Real
from .rounding import Rounding
from .steps import Call, Outputs, reals, words

NO_ZERO_POINT = np.zeros((), np.int8)


def divided(x: Real, scale: Fraction, dtype: str) -> Real:
    """Return the exact quotient; the sign of the scale turns an infinity."""
    if x.kind != "finite":
        return Real(x.negative != (scale < 0), kind=x.kind)
    return floats.exactly(x.value / scale)


@dataclass(frozen=True)
class Quantize:
    """The steps of quantizing, in order."""

    divide: Callable[[Real, Fraction, str], Real] = divided
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, call: Call) -> Outputs:
        """Return clamp(round(input / scale) + zero point)."""
        x, dtype = call.inputs["InputTensor"], call.outputs["OutputTensor"].dtype
        zero = call.inputs.get("ZeroPointTensor", NO_ZERO_POINT)
        scales = reals(np.broadcast_to(call.inputs["ScaleTensor"], x.shape))
        zeros = words(np.broadcast_to(zero, x.shape))
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

    convert: Callable[[int, int, Fraction, str, str], int] = difference_times_scale

    def __call__(self, call: Call) -> Outputs:
        """Return (input - zero point) * scale."""
        x, scale = call.inputs["InputTensor"], call.inputs["ScaleTensor"]
        source, dtype = x.dtype.name, scale.dtype.name
        zero = call.inputs.get("ZeroPointTensor", NO_ZERO_POINT)
        scales, zeros = (np.broadcast_to(each, x.shape) for each in (scale, zero))
        found = [
            self.convert(word, point, own.value, source, dtype)
            for word, own, point in zip(words(x), reals(scales), words(zeros), strict=True)
        ]
        bits = np.array(found, f"uint{8 * scale.dtype.itemsize}")
        return {"OutputTensor": bits.view(scale.dtype).reshape(x.shape)}
