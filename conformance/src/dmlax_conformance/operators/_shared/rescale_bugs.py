"""Planted bugs of the step from a sum to a real number: other formulas, and floats on the way."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...suite.bugs.convolution import Scales, exact_rescale
from ...suite.bugs.steps import of_float, to_float
from . import floats
from .floats import NAN, Real, round_half_even

Rescale = Callable[[int, Scales], Real]


def with_scales(change: Callable[[Fraction, Fraction, Fraction], Scales]) -> Rescale:
    return lambda accumulator, scales: exact_rescale(accumulator, change(*scales))


def _in(dtype: str, formula: Callable[..., Any], accumulator: int, scales: Scales) -> Real:
    """Compute with NumPy's floats, each step rounded."""
    number = to_float(Fraction(accumulator), dtype)
    return of_float(formula(number, *(to_float(scale, dtype) for scale in scales)))


def _fixed_point(accumulator: int, scales: Scales) -> Real:
    """Multiply by 31 bits of the multiplier, round half up, then shift and round again."""
    multiplier = scales[0] * scales[1] / scales[2]
    size = abs(multiplier)
    power = size.numerator.bit_length() - size.denominator.bit_length() + 1
    mantissa = round_half_even(multiplier / Fraction(2) ** power * 2**31)
    high = (accumulator * mantissa + 2**30) >> 31
    return floats.exactly(high * Fraction(2) ** power)


def _few_bits(bits: int, accumulator: int, scales: Scales) -> Real:
    """Keep so many bits after the binary point of the multiplier."""
    multiplier = round_half_even(scales[0] * scales[1] / scales[2] * 2**bits)
    return floats.exactly(Fraction(accumulator * multiplier, 2**bits))


def _rounded_factor(
    factor: Callable[[Fraction, Fraction, Fraction], Fraction],
    is_whole: bool,
    accumulator: int,
    scales: Scales,
) -> Real:
    """Round one factor to FLOAT32, and be exact from there; a whole one leaves no division."""
    rounded = floats.nearest(floats.exactly(factor(*scales)), "float32")
    sy = Fraction(1) if is_whole else scales[2]
    if rounded.kind == "finite":
        return floats.exactly(accumulator * rounded.value / sy)
    is_negative = (rounded.negative != (accumulator < 0)) != (sy < 0)
    return NAN if accumulator == 0 else Real(is_negative, kind="inf")


WRONG_RESCALES: Mapping[str, Rescale] = {
    "output-scale-multiplied": with_scales(lambda x, w, y: (x, w, 1 / y)),
    "float32-multiplier": partial(_in, "float32", lambda a, x, w, y: a * (x * w / y)),
    "float32-formula": partial(_in, "float32", lambda a, x, w, y: a * (x * w) / y),
    "float32-in-turn": partial(_in, "float32", lambda a, x, w, y: a * x * w / y),
    "float32-reciprocal": partial(
        _in, "float32", lambda a, x, w, y: a * (x * w) * (np.float32(1) / y)
    ),
    "float64-multiplier": partial(_in, "float64", lambda a, x, w, y: a * (x * w / y)),
    "float64-formula": partial(_in, "float64", lambda a, x, w, y: a * (x * w) / y),
    "float64-reciprocal": partial(_in, "float64", lambda a, x, w, y: a * (x * w) * (1 / y)),
    "float64-times-float32-multiplier": partial(_rounded_factor, lambda x, w, y: x * w / y, True),
    "float32-product-of-scales": partial(_rounded_factor, lambda x, w, y: x * w, False),
    "float32-accumulator": lambda a, scales: exact_rescale(int(np.float32(a)), scales),
    "float16-formula": partial(_in, "float16", lambda a, x, w, y: a * (x * w) / y),
    "fixed-point-31": _fixed_point,
    "fixed-point-24": partial(_few_bits, 24),
    "fixed-point-16": partial(_few_bits, 16),
}
