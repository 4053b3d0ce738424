"""Numbers of IEEE 754's binary32, and its five operations, in integers.

A number is its 32 bits. Each operation rounds once, to nearest, ties to even, and keeps subnormal
numbers: https://standards.ieee.org/ieee/754/6210/
"""

# ruff: noqa: D105 - the operators are IEEE's

from fractions import Fraction
from math import isqrt
from typing import Any

SIGN, INFINITY, LEAST_NORMAL, QUIET_NAN = 1 << 31, 0xFF << 23, 1 << 23, 0x7FC0_0000
LEAST = -149  # the exponent of the last place of a subnormal number
GUARD = 64  # more bits of a quotient or a root than can decide its rounding


class Single:
    """A number; operators take other numbers, and Python's, which are rounded first."""

    __slots__ = ("word",)

    def __init__(self, word: int) -> None:
        """Keep the bits."""
        self.word = word

    @property
    def is_negative(self) -> bool:
        """The sign bit."""
        return self.word >= SIGN

    @property
    def size(self) -> int:
        """The bits without the sign, which are in the order of magnitudes."""
        return self.word & ~SIGN

    @property
    def is_nan(self) -> bool:
        """True for every NaN."""
        return self.size > INFINITY

    @property
    def parts(self) -> tuple[int, int]:
        """A mantissa with its sign and an exponent, of a finite number."""
        assert self.size < INFINITY
        exponent, fraction = divmod(self.size, LEAST_NORMAL)
        mantissa = fraction + LEAST_NORMAL * (exponent > 0)
        return -mantissa if self.is_negative else mantissa, LEAST + max(exponent - 1, 0)

    def __add__(self, other: Any) -> "Single":
        other = single(other)
        if max(self.size, other.size) >= INFINITY:
            is_lost = self.is_nan or other.is_nan or self.word ^ other.word == SIGN
            return NAN if is_lost else max(self, other, key=lambda x: x.size)
        (a, p), (b, q) = self.parts, other.parts
        least = min(p, q)
        total = (a << (p - least)) + (b << (q - least))
        is_negative = total < 0 if total else self.is_negative and other.is_negative
        return _rounded(is_negative, abs(total), least)

    def __mul__(self, other: Any) -> "Single":
        other = single(other)
        sign = (self.word ^ other.word) & SIGN
        if max(self.size, other.size) >= INFINITY:
            is_lost = self.is_nan or other.is_nan or not self.size or not other.size
            return NAN if is_lost else Single(sign | INFINITY)
        (a, p), (b, q) = self.parts, other.parts
        return _rounded(sign > 0, abs(a * b), p + q)

    def __truediv__(self, other: Any) -> "Single":
        other = single(other)
        sign = (self.word ^ other.word) & SIGN
        is_lost = self.size == other.size and self.size in (0, INFINITY)
        if self.is_nan or other.is_nan or is_lost:
            return NAN
        if self.size == INFINITY or not other.size:
            return Single(sign | INFINITY)
        if other.size == INFINITY:
            return Single(sign)
        (a, p), (b, q) = self.parts, other.parts
        quotient, rest = divmod(abs(a) << GUARD, abs(b))
        return _rounded(sign > 0, 2 * quotient + (rest > 0), p - q - GUARD - 1)

    def __neg__(self) -> "Single":
        return Single(self.word ^ SIGN)

    def __abs__(self) -> "Single":
        return Single(self.size)

    def __radd__(self, other: float) -> "Single":
        return self + other

    def __rmul__(self, other: float) -> "Single":
        return self * other

    def __sub__(self, other: Any) -> "Single":
        return self + -single(other)

    def __rsub__(self, other: float) -> "Single":
        return single(other) - self

    def __rtruediv__(self, other: float) -> "Single":
        return single(other) / self

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(single(other))

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(single(other))

    def __le__(self, other: Any) -> bool:
        return _key(self) <= _key(single(other))

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(single(other))

    def __eq__(self, other: object) -> bool:
        return _key(self) == _key(single(other))

    def __hash__(self) -> int:
        return hash(self.word)

    def value(self) -> Fraction:
        """Return the number, which is finite."""
        mantissa, power = self.parts
        return Fraction(mantissa) * Fraction(2) ** power


NAN, INFINITE = Single(QUIET_NAN), Single(INFINITY)


def single(value: Any) -> Single:
    """Return a number of Python's rounded to binary32."""
    if isinstance(value, Single):
        return value
    numerator, denominator = Fraction(value).as_integer_ratio()
    quotient, rest = divmod(abs(numerator) << 256, denominator)
    return _rounded(numerator < 0, 2 * quotient + (rest > 0), -257)


def root(x: Single) -> Single:
    """Return the rounded square root of a number that is not negative."""
    if x.size in (0, INFINITY):
        return x
    mantissa, power = x.parts
    shift = GUARD + power % 2
    found = isqrt(mantissa << shift)
    is_above = found * found != mantissa << shift
    return _rounded(False, 2 * found + is_above, (power - shift) // 2 - 1)


def _key(x: Single) -> int:
    assert not x.is_nan
    return -x.size if x.is_negative else x.size


def _rounded(is_negative: bool, magnitude: int, power: int) -> Single:
    """Return the nearest number to magnitude * 2**power."""
    drop = max(magnitude.bit_length() - 24, LEAST - power)
    if drop > 0:
        whole, rest = divmod(magnitude, 1 << drop)
        half = 1 << (drop - 1)
        whole += rest > half or (rest == half and whole % 2)
    else:
        whole = magnitude << -drop
    if not whole:
        return Single(SIGN if is_negative else 0)
    word = min(whole + ((power + drop - LEAST) << 23), INFINITY)
    return Single(word | (SIGN if is_negative else 0))
