"""Requantization by an integer multiplier and a shift, as LiteRT, XNNPACK and TOSA have it.

Microcontrollers and NPUs have no fractions: they multiply an int32 sum by an integer of 31 bits and
shift the product. Where a product or a shift is rounded, and which way its halves go, is the mode.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import NamedTuple

from . import exact
from .exact import wrap_int32

FIELD = "Requantization"
HALF = Fraction(1, 2)


class Multiplier(NamedTuple):
    """A factor as `value * 2**exponent / 2**31`; the value has 31 bits."""

    value: int
    exponent: int


def multiplier(real: Fraction) -> Multiplier:
    """Return the nearest multiplier of a positive number; one below 2**-32 is 0."""
    exponent = exponent_of(real)
    value = floor(real * Fraction(2) ** (31 - exponent) + HALF)
    if value == 1 << 31:
        value, exponent = value >> 1, exponent + 1
    return Multiplier(value, exponent) if exponent >= -31 else Multiplier(0, 0)


def exponent_of(real: Fraction) -> int:
    """Return the exponent of the power of two next above a positive number."""
    exponent = real.numerator.bit_length() - real.denominator.bit_length()
    return exponent + (real >= Fraction(2) ** exponent)


def half_up(x: int, count: int) -> int:
    """Return x / 2**count, halves up."""
    return (x + (1 << count >> 1)) >> count if count > 0 else x << -count


def half_away(x: int, count: int) -> int:
    """Return x / 2**count, halves away from zero."""
    rounded = (abs(x) + (1 << count >> 1)) >> count
    return rounded if x >= 0 else -rounded


def high(x: int, by: Multiplier) -> int:
    """Return the high word of a product; a shift to the left comes first, and wraps."""
    return half_up(wrap_int32(x << max(by.exponent, 0)) * by.value, 31)


def once(x: int, by: Multiplier) -> int:
    """Return the whole product, rounded once."""
    return half_up(x * by.value, 31 - by.exponent)


def double(x: int, by: Multiplier) -> int:
    """Return the product, rounded twice; the halves of the second go away from zero."""
    return half_away(high(x, by), max(-by.exponent, 0))


def half_up_twice(x: int, by: Multiplier) -> int:
    """Return the product, rounded twice; all halves go up."""
    return half_up(high(x, by), max(-by.exponent, 0))


def float64(x: int, real: Fraction) -> int:
    """Return the float64 product, halves away from zero."""
    product = in_float(x * real, "float64")
    rounded = floor(abs(product) + HALF)
    return rounded if product >= 0 else -rounded


def in_float(value: Fraction, dtype: str) -> Fraction:
    """Return the nearest float."""
    return exact.nearest(exact.exactly(value), dtype).value


SINGLE, DOUBLE = "fixed_point_single", "fixed_point_double"
MULTIPLIED: Mapping[str, Callable[[int, Multiplier], int]] = {
    SINGLE: once,
    DOUBLE: double,
    "fixed_point_half_up": half_up_twice,
}
OF_SUMS = (*MULTIPLIED, "float64")  # the modes of a sum of products


def scaled(x: int, real: Fraction, mode: str) -> int:
    """Return an integer times a float64, by the mode."""
    return MULTIPLIED[mode](x, multiplier(real)) if mode in MULTIPLIED else float64(x, real)


def rescale(total: int, factor: Fraction, point: int, dtype: str, mode: str) -> int:
    """Return a sum with its bias, which wraps, times the float64 of a factor, as a byte."""
    return exact.clamp(scaled(wrap_int32(total), in_float(factor, "float64"), mode) + point, dtype)


def added(x: int, y: int, scales: Sequence[Fraction], mode: str) -> int:
    """Return the sum of two integers of two scales, in the third."""
    a, b, output = scales
    if mode == SINGLE:
        ratios = [in_float(each / output, "float32") for each in (a, b)]
        count = 21 - exponent_of(max(ratios))
        first, second = (exact.round_half_even(each * 2**count) for each in ratios)
        return half_up(x * first + y * second, count)
    twice = 2 * max(a, b)
    terms = [
        scaled(v << 20, in_float(scale / twice, "float64"), mode) for v, scale in ((x, a), (y, b))
    ]
    return scaled(sum(terms), in_float(twice / (output * 2**20), "float64"), mode)


def multiplied(x: int, y: int, scales: Sequence[Fraction], mode: str) -> int:
    """Return the product of two integers of two scales, in the third; its factor is a float32."""
    a, b, output = scales
    return scaled(x * y, in_float(in_float(a * b, "float32") / output, "float32"), mode)


def averaged(total: int, count: int, scales: Sequence[Fraction], mode: str) -> int:
    """Return the mean of a sum of so many integers; the multiplier is divided, and cut."""
    value, exponent = multiplier(in_float(scales[0] / scales[1], "float64"))
    shift = min(count.bit_length() - 1, 31 + exponent)
    return MULTIPLIED[mode](total, Multiplier((value << shift) // count, exponent - shift))


_TWICE = "as the fixed_point_double of a convolution scales a sum"
TEXTS = {  # by the label of clauses, beside those of sums of products
    "ADD": "of the differences x and y from the zero points: fixed_point_single: (x * ma + y * mb +"
    " 2^(k - 1)) >> k, where ma and mb are the float32 sa / sy and sb / sy times 2^k, rounded, and"
    " the greater one has 21 bits; fixed_point_double: x * 2^20 times sa / (2 * max), y * 2^20"
    " times sb / (2 * max), and the sum of both times 2 * max / (2^20 * sy), where max is the"
    f" greater of sa and sb, each {_TWICE}",
    "MUL": f"the product of the differences times the float32 sa * sb / sy, {_TWICE}",
    "GAP": "the sum of n differences times floor(q * 2^k / n) * 2^(e - k) / 2^31, where q and e are"
    f" those of sx / sy and k is the least of floor(log2(n)) and 31 + e, {_TWICE}",
}
_OF_SUMS = (
    "x is the sum with the bias, which wraps at 32 bits; r is the float64 of the scales' quotient;"
    " q * 2^e / 2^31 is the nearest to r with q of 31 bits; t = floor((x * 2^max(e, 0)) * q / 2^31"
    " + 1/2), where the shift wraps; s = max(-e, 0); fixed_point_single: floor(x * q / 2^(31 - e) +"
    " 1/2); fixed_point_double: t / 2^s, halves away from zero; fixed_point_half_up: floor(t / 2^s"
    " + 1/2); float64: the float64 x * r, halves away from zero"
)


def clauses(label: str, first: int, modes: Sequence[str] = OF_SUMS) -> str:
    """Return the clauses of an operator that takes these modes, numbered from the first."""
    return (
        f"{label}-{first} (result): With Requantization: {TEXTS.get(label, _OF_SUMS)}. Then the"
        " zero point is added, and the result clamped.\n"
        f"{label}-{first + 1}: Requantization is absent, or one of {', '.join(modes)}.\n"
    )
