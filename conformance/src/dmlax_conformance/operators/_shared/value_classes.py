"""Value classes of what is rounded to 8 bits: which arithmetic gets an element wrong."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from . import floats
from .cross import Array
from .floats import Real, divide_half_even, round_half_even
from .rounding import RANGES

HALF = Fraction(1, 2)
EXTENDED = 64  # bits of an x87 mantissa


def of_quotients(quotients: Sequence[Real], zero_points: Array, dtype: str) -> dict[str, Array]:
    """Return the classes of quotients before they are rounded, by what is easily done wrong."""
    found = [_classes(q, int(z), dtype) for q, z in zip(quotients, zero_points, strict=True)]
    return {name: np.array([name in each for each in found], bool) for name in QUOTIENTS}


QUOTIENTS = (
    *("tie, even below", "tie, even above", "tie below zero", "whole", "between", "zero"),
    *("beside the highest value", "beside the lowest value", "saturates high", "saturates low"),
    *("far above 16 bits", "far below 16 bits", "above 32 bits", "below 32 bits"),
)


ROUNDED = ("tie, even *", "between", "saturates *")  # patterns of classes that meet structures


def _classes(quotient: Real, zero_point: int, dtype: str) -> set[str]:
    if quotient.kind != "finite":
        return set()
    (value, one), (low, high) = quotient.value.as_integer_ratio(), RANGES[dtype]  # in parts of one
    rounded = divide_half_even(value, one)
    distance, exact = value - rounded * one, value + zero_point * one
    is_inside, is_tie = low < rounded + zero_point < high, abs(2 * distance) == one
    holds = {
        "tie, even below": is_inside and is_tie and distance > 0,
        "tie, even above": is_inside and is_tie and distance < 0,
        "tie below zero": is_inside and is_tie and value < 0,
        "whole": is_inside and distance == 0,
        "between": is_inside and distance != 0 and not is_tie,
        "zero": value == 0,
        "beside the highest value": high * one <= exact <= (high + 2) * one,
        "beside the lowest value": (low - 2) * one <= exact <= low * one,
        "saturates high": exact > (high + 2) * one,
        "saturates low": exact < (low - 2) * one,
        "far above 16 bits": value >= one << 15,
        "far below 16 bits": value < -one << 15,
        "above 32 bits": value >= one << 31,
        "below 32 bits": value < -one << 31,
    }
    return {name for name, is_so in holds.items() if is_so}


def errs(approximate: Any, zero_points: Array, dtype: str, expected: Array) -> Array:
    """Return where quotients of another arithmetic come to other integers than expected."""
    low, high = RANGES[dtype]
    with np.errstate(all="ignore"):
        rounded = np.rint(np.asarray(approximate, np.float64)) + zero_points
        is_finite = np.isfinite(rounded)
        placed = np.clip(np.where(is_finite, rounded, 0), low, high)
    return np.asarray(is_finite & (placed != expected))


def extended(value: Fraction) -> Fraction:
    """Round to 64 bits, as extended precision does."""
    if value == 0:
        return value
    size = abs(value).numerator.bit_length() - value.denominator.bit_length()
    unit = Fraction(2) ** (size - EXTENDED + (abs(value) >= Fraction(2) ** size))
    return round_half_even(value / unit) * unit


def extended_errs(
    quotients: Sequence[Real], way: Callable[[int], Fraction], is_near: Array
) -> Array:
    """Return where extended precision rounds to another integer; only near ties are tried."""
    found = np.zeros(len(quotients), bool)
    for index in map(int, np.flatnonzero(is_near)):
        exact = round_half_even(quotients[index].value)
        found[index] = round_half_even(way(index)) != exact
    return found


def near_ties(quotients: Sequence[Real]) -> Array:
    """Return a mask of the quotients within 1/16 of a half: ties and near ties."""
    return np.array([_is_near_tie(quotient) for quotient in quotients], bool)


def _is_near_tie(quotient: Real) -> bool:
    value, one = quotient.magnitude.as_integer_ratio()
    if quotient.kind != "finite" or value > 1000 * one:
        return False
    return 8 * abs(2 * (value % one) - one) < one


def real(word: int, dtype: str) -> Real:
    """Return what a word stands for."""
    if dtype in floats.FORMATS:
        return floats.decode(word, dtype)
    return floats.exactly(Fraction(word))
