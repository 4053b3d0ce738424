"""Exact arithmetic: IEEE 754 numbers as fractions, and rounding to floats and to small integers.

DirectML's pages give formulas in real numbers. The operators compute them with fractions and round
once, by the functions here. The pages that ask for rounding to even are those of the operators,
above all
https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_element_wise_quantize_linear_operator_desc
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


class Format(NamedTuple):
    """Widths of a binary float's fields, exponent of a subnormal's last place, bits of infinity."""

    exponent: int
    fraction: int
    smallest: int
    infinity: int


FORMATS = {
    "float16": Format(5, 10, -24, 0x7C00),
    "float32": Format(8, 23, -149, 0x7F80_0000),
    "float64": Format(11, 52, -1074, 0x7FF0_0000_0000_0000),
}


@dataclass(frozen=True)
class Real:
    """A sign and a magnitude; `kind` is `finite`, `inf` or `nan`."""

    negative: bool
    magnitude: Fraction = Fraction(0)
    kind: str = "finite"

    def __hash__(self) -> int:
        """Return the cached hash: that of a fraction costs more than to round it."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.negative, self.magnitude, self.kind))

    @property
    def value(self) -> Fraction:
        """The signed value of a finite number."""
        assert self.kind == "finite"
        return -self.magnitude if self.negative else self.magnitude

    @property
    def is_zero(self) -> bool:
        """True for both zeros."""
        return self.kind == "finite" and not self.magnitude


NAN = Real(False, kind="nan")


@lru_cache(maxsize=1 << 16)  # a call has few scales, and reads them at each element
def decode(word: int, dtype: str) -> Real:
    """Return the number that a bit pattern stands for."""
    form = FORMATS[dtype]
    fraction = word & ((1 << form.fraction) - 1)
    exponent = (word >> form.fraction) & ((1 << form.exponent) - 1)
    negative = bool(word >> (form.fraction + form.exponent))
    if exponent == (1 << form.exponent) - 1:
        return Real(negative, kind="nan" if fraction else "inf")
    if exponent:
        fraction += 1 << form.fraction
    power = form.smallest + max(exponent, 1) - 1
    return Real(negative, scaled(fraction, power))


def is_nan(word: int, dtype: str) -> bool:
    """Return whether a bit pattern stands for a NaN."""
    form = FORMATS[dtype]
    return word & ((1 << (form.fraction + form.exponent)) - 1) > form.infinity


def encode(number: Real, dtype: str) -> int:
    """Return the bits of the nearest representable number, ties to even."""
    form = FORMATS[dtype]
    sign = int(number.negative) << (form.exponent + form.fraction)
    if number.kind == "nan":
        return form.infinity | (1 << (form.fraction - 1))
    if number.kind == "inf":
        return sign | form.infinity
    power = last_place(number.magnitude, form)
    steps = divide_half_even(*in_last_places(number.magnitude, form))
    # Adding, not or-ing: a fraction rounded up to the next power of two carries into the exponent.
    word = steps + ((power - form.smallest) << form.fraction)
    return sign | min(word, form.infinity)


def nearest(number: Real, dtype: str) -> Real:
    """Round to a float format."""
    return decode(encode(number, dtype), dtype)


def exactly(value: Fraction) -> Real:
    """Return a fraction as a number; zero is positive."""
    return Real(True, -value) if value.numerator < 0 else Real(False, value)


def scaled(whole: int, power: int) -> Fraction:
    """Return an integer times a power of two."""
    return Fraction(whole << power) if power >= 0 else Fraction(whole, 1 << -power)


def in_last_places(magnitude: Fraction, form: Format) -> tuple[int, int]:
    """Return a magnitude in units in the last place, as numerator and denominator."""
    value, one = magnitude.as_integer_ratio()
    power = last_place(magnitude, form)
    return (value, one << power) if power >= 0 else (value << -power, one)


def last_place(magnitude: Fraction, form: Format) -> int:
    """Return the exponent of the unit in the last place at this magnitude."""
    value, one = magnitude.as_integer_ratio()
    if value == 0:
        return form.smallest
    top = value.bit_length() - one.bit_length()
    if (one << top > value) if top >= 0 else (one > value << -top):
        top -= 1
    return max(top - form.fraction, form.smallest)


def round_half_even(value: Fraction) -> int:
    """Return the nearest integer, the even one of two equally near."""
    return divide_half_even(value.numerator, value.denominator)


def divide_half_even(numerator: int, denominator: int) -> int:
    """Return the nearest integer to a quotient by a positive integer, ties to even."""
    below, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    if twice == denominator:
        return below + below % 2
    return below + (twice > denominator)


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
    """Round pairs of a quotient and a zero point to words; equal pairs are rounded once."""
    words = {pair: quantize(pair[0], Fraction(1), pair[1], dtype) for pair in set(quotients)}
    return tuple(words[pair] for pair in quotients)


def rescale(accumulator: int, multiplier: Fraction, zero_point: int, dtype: str) -> int:
    """Return clamp(round(accumulator * multiplier) + zero_point)."""
    product = accumulator * multiplier.numerator
    return clamp(divide_half_even(product, multiplier.denominator) + zero_point, dtype)
