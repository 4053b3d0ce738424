"""Rounding of an accumulator or a real number to a small integer."""

from collections.abc import Sequence
from fractions import Fraction

from . import floats
from .floats import NAN, Real, divide_half_even, round_half_even

Scales = tuple[Fraction, Fraction, Fraction]  # of input, filter and output
RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


def wrap_int32(value: int) -> int:
    """Reduce to the 32-bit two's complement integer that is congruent to it."""
    return (value + 2**31) % 2**32 - 2**31


def clamp(value: int, dtype: str) -> int:
    """Limit to the full range of an 8-bit dtype."""
    low, high = RANGES[dtype]
    return min(max(value, low), high)


def quantize(number: Real, scale: Fraction, zero_point: int, dtype: str) -> int:
    """Return clamp(round(number / scale) + zero_point); NaN gives the lowest value."""
    low, high = RANGES[dtype]
    if number.kind == "nan":
        return low
    if number.kind == "inf":
        return low if number.negative != (scale < 0) else high
    quotient = number.value if scale == 1 else number.value / scale
    return clamp(round_half_even(quotient) + zero_point, dtype)


def rounded(quotients: Sequence[tuple[Real, int]], dtype: str) -> tuple[int, ...]:
    """Return quotients as integers, each with its zero point added; equal ones are rounded once."""
    found = {each: quantize(each[0], Fraction(1), each[1], dtype) for each in set(quotients)}
    return tuple(found[each] for each in quotients)


def requantize(accumulator: int, scales: Scales, zero_point: int, dtype: str) -> int:
    """Return the correctly rounded output for input, filter and output scales."""
    input_scale, filter_scale, output_scale = scales
    multiplier = input_scale * filter_scale / output_scale
    return multiply(accumulator, multiplier, zero_point, dtype)


def multiply(accumulator: int, multiplier: Fraction, zero_point: int, dtype: str) -> int:
    """Return clamp(round(accumulator * multiplier) + zero_point)."""
    product = accumulator * multiplier.numerator
    return clamp(divide_half_even(product, multiplier.denominator) + zero_point, dtype)


def requantize_float32(
    accumulator: int, scales: tuple[int, int, int], zero_point: int, dtype: str
) -> int:
    """Return what one float32 multiplier gives; the scales are float32 bits."""
    low, high = RANGES[dtype]
    product = float32_product(accumulator, scales)
    if product == NAN:
        return low
    if product.kind == "inf":
        return low if product.negative else high
    return clamp(round_half_even(product.value) + zero_point, dtype)


def float32_product(accumulator: int, scales: tuple[int, int, int]) -> Real:
    """Return float32(accumulator) * ((input * filter) / output), each step rounded."""
    sx, sw, sy = (floats.decode(word, "float32") for word in scales)
    multiplier = floats.divide(floats.multiply(sx, sw, "float32"), sy, "float32")
    rounded = floats.nearest(floats.exactly(Fraction(accumulator)), "float32")
    return floats.multiply(rounded, multiplier, "float32")
