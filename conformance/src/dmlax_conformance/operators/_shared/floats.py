"""IEEE 754 binary numbers taken apart into exact fractions and put together again."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache


@dataclass(frozen=True)
class Format:
    """Widths of the two fields of a binary float."""

    exponent: int
    fraction: int

    @cached_property
    def bias(self) -> int:
        """The sum added to an exponent before it is stored."""
        return (1 << (self.exponent - 1)) - 1

    @cached_property
    def smallest(self) -> int:
        """Exponent of the last place of a subnormal."""
        return 1 - self.bias - self.fraction

    @cached_property
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

    def __hash__(self) -> int:
        """Return the hash, found once: that of a fraction costs more than to round it."""
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
    value, one = number.magnitude.as_integer_ratio()
    power = _last_place(value, one, form)
    steps = divide_half_even(*_in_units(value, one, power))
    # Adding, not or-ing: a fraction rounded up to the next power of two carries into the exponent.
    word = steps + ((power - form.smallest) << form.fraction)
    return sign | min(word, form.infinity)


def nearest(number: Real, dtype: str) -> Real:
    """Round to a float format."""
    return decode(encode(number, dtype), dtype)


def exactly(value: Fraction) -> Real:
    """Return a fraction as a number; zero is positive."""
    return Real(True, -value) if value.numerator < 0 else Real(False, value)


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


def scaled(whole: int, power: int) -> Fraction:
    """Return an integer times a power of two."""
    return Fraction(whole << power) if power >= 0 else Fraction(whole, 1 << -power)


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


def in_last_places(magnitude: Fraction, form: Format) -> tuple[int, int]:
    """Return a magnitude in units in the last place, as numerator and denominator."""
    value, one = magnitude.as_integer_ratio()
    return _in_units(value, one, _last_place(value, one, form))


def _in_units(value: int, one: int, power: int) -> tuple[int, int]:
    return (value, one << power) if power >= 0 else (value << -power, one)


def last_place(magnitude: Fraction, form: Format) -> int:
    """Return the exponent of the unit in the last place at this magnitude."""
    return _last_place(*magnitude.as_integer_ratio(), form)


def _last_place(value: int, one: int, form: Format) -> int:
    if value == 0:
        return form.smallest
    top = value.bit_length() - one.bit_length()
    if (one << top > value) if top >= 0 else (one > value << -top):
        top -= 1
    return max(top - form.fraction, form.smallest)
