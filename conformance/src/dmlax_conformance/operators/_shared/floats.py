"""IEEE 754 binary numbers taken apart into exact fractions and put together again."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Format(NamedTuple):
    """Widths of the two fields of a binary float."""

    exponent: int
    fraction: int

    @property
    def bias(self) -> int:
        """The sum added to an exponent before it is stored."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def smallest(self) -> int:
        """Exponent of the last place of a subnormal."""
        return 1 - self.bias - self.fraction

    @property
    def infinity(self) -> int:
        """Bits of positive infinity."""
        return ((1 << self.exponent) - 1) << self.fraction


FORMATS = {"float16": Format(5, 10), "float32": Format(8, 23), "float64": Format(11, 52)}


@dataclass(frozen=True)
class Real:
    """A sign and a magnitude; `kind` is `finite`, `inf` or `nan`."""

    negative: bool
    magnitude: Fraction = Fraction(0)
    kind: str = "finite"

    @property
    def value(self) -> Fraction:
        """The signed value of a finite number."""
        assert self.kind == "finite"
        return -self.magnitude if self.negative else self.magnitude

    @property
    def is_zero(self) -> bool:
        """True for both zeros."""
        return self.kind == "finite" and self.magnitude == 0


NAN = Real(False, kind="nan")


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
    return Real(negative, fraction * Fraction(2) ** power)


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
    power = _last_place(number.magnitude, form)
    steps = round_half_even(number.magnitude / Fraction(2) ** power)
    # Adding, not or-ing: a fraction rounded up to the next power of two carries into the exponent.
    word = steps + ((power - form.smallest) << form.fraction)
    return sign | min(word, form.infinity)


def nearest(number: Real, dtype: str) -> Real:
    """Round to a float format."""
    return decode(encode(number, dtype), dtype)


def exactly(value: Fraction) -> Real:
    """Return a fraction as a number; zero is positive."""
    return Real(value < 0, abs(value))


def round_half_even(value: Fraction) -> int:
    """Return the nearest integer, the even one of two equally near."""
    below, remainder = divmod(value.numerator, value.denominator)
    twice = 2 * remainder
    if twice == value.denominator:
        return below + below % 2
    return below + (twice > value.denominator)


def multiply(a: Real, b: Real, dtype: str) -> Real:
    """Return the IEEE product."""
    negative = a.negative != b.negative
    if "nan" in (a.kind, b.kind) or ((a.is_zero or b.is_zero) and "inf" in (a.kind, b.kind)):
        return NAN
    if "inf" in (a.kind, b.kind):
        return Real(negative, kind="inf")
    return nearest(Real(negative, a.magnitude * b.magnitude), dtype)


def divide(a: Real, b: Real, dtype: str) -> Real:
    """Return the IEEE quotient by a finite number that is not zero."""
    assert b.kind == "finite"
    assert not b.is_zero
    negative = a.negative != b.negative
    if a.kind != "finite":
        return Real(negative, kind=a.kind)
    return nearest(Real(negative, a.magnitude / b.magnitude), dtype)


def _last_place(magnitude: Fraction, form: Format) -> int:
    """Return the exponent of the unit in the last place at this magnitude."""
    if magnitude == 0:
        return form.smallest
    top = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** top > magnitude:
        top -= 1
    return max(top - form.fraction, form.smallest)
