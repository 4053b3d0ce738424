"""Accumulators and scales of every value class of what is multiplied by scales and rounded."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .floats import round_half_even
from .near_ties import Draw
from .rounding import RANGES
from .value_classes import extended

# -- halves that arithmetic gets wrong ---------------------------------------------------------

WHOLE = 9 * 5 * 7 * 11 * 13  # with many divisors
PRIME = 281  # so that products of scales and accumulators have more bits than a float64
SX, SY = PRIME * Fraction(1, 2**27), PRIME * WHOLE * Fraction(1, 2**12)
MOST = 89  # of a rounded quotient, so that it is no end of the range


class Half(NamedTuple):
    """A half: `numerator / 2`, as accumulator `numerator * divisor` over twice the divisor."""

    numerator: int
    divisor: int

    @property
    def accumulator(self) -> int:
        """The smallest accumulator."""
        return self.numerator * self.divisor

    def scale(self, shift: int) -> Fraction:
        """Return the filter scale for the accumulator times a power of two."""
        return SY / SX / self.divisor / Fraction(2 ** (shift + 1))


Numbers = Callable[[Any, Any, Any, Any], Any]
METHODS: Mapping[str, tuple[str, Numbers]] = {
    "float32 multiplier": ("float32", lambda a, x, w, y: a * (x * w / y)),
    "float32 formula": ("float32", lambda a, x, w, y: a * (x * w) / y),
    "float64 multiplier": ("float64", lambda a, x, w, y: a * (x * w / y)),
    "float64 reciprocal": ("float64", lambda a, x, w, y: a * (x * w) * (1 / y)),
}


@cache
def halves() -> Mapping[str, list[Half]]:
    """Return for each arithmetic the halves that it gets wrong."""
    divisors = [each for each in range(2, 200) if WHOLE % each == 0]
    every = [Half(n, each) for each in divisors for n in range(1, 2 * MOST, 2)]
    found = {
        name: [half for half in every if _errs(half, *method)] for name, method in METHODS.items()
    }
    return {**found, "extended multiplier": [half for half in every if _extended_errs(half)]}


def _errs(half: Half, dtype: str, formula: Numbers) -> bool:
    kind = np.dtype(dtype).type
    numbers = (kind(float(each)) for each in (half.accumulator, SX, half.scale(0), SY))
    return int(np.rint(formula(*numbers))) != round_half_even(Fraction(half.numerator, 2))


def _extended_errs(half: Half) -> bool:
    quotient = extended(half.accumulator * extended(Fraction(1, 2 * half.divisor)))
    return round_half_even(quotient) != round_half_even(Fraction(half.numerator, 2))


# -- accumulators and scales of each class -----------------------------------------------------


KINDS = (
    *("float32 multiplier", "float32 formula", "float64 multiplier", "float64 reciprocal"),
    *("extended multiplier", "near", "-near", "even below", "even above", "-even below"),
    *("high", "low", "beside high", "beside low", "far high", "far low", "whole", "zero"),
    *("-float32 multiplier", "between", "highest", "lowest", "-float64 multiplier"),
)
FAR = {"far high": 2**9, "far low": -(2**9), "highest": 2**32, "lowest": -(2**32)}


class Member(NamedTuple):
    """An accumulator and the filter scale for it."""

    accumulator: int
    scale: Fraction


def member(kind: str, words: frozenset[str], zero_point: int, draw: Draw) -> Member:
    """Return an accumulator and a filter scale whose quotient is of the kind."""
    has_bias = "nobias" not in words
    shift = draw.below(12) + 4 * draw.below(2) if has_bias else 0
    name, sign = kind.lstrip("-"), -1 if kind.startswith("-") else 1
    divisor = (3, 5, 7, 11)[draw.below(4)]
    if kind in FAR:
        factor = abs(FAR[kind]) * Fraction(2) ** (shift + 1)
        return Member((1 if FAR[kind] > 0 else -1) << shift << 7, SY / SX * factor / 2**shift)
    if name == "near":
        tie = Half(2 * draw.below(40) + 41, divisor if has_bias else 195)
        shift = 17 if has_bias else 0
        beside = (tie.accumulator << shift) + (1, -1)[draw.below(2)]
        return Member(sign * beside, tie.scale(shift))
    half = _half(name, words, zero_point, Half(2 * draw.below(MOST) + 1, divisor), draw)
    return Member(sign * half.accumulator << shift, half.scale(shift))


def _half(name: str, words: frozenset[str], zero_point: int, other: Half, draw: Draw) -> Half:
    """Return the half, or other multiple of a half, of a kind."""
    if name in halves():
        among = halves()[name]
        return among[draw.below(len(among))]
    low, high = (end - zero_point for end in RANGES[output_type(words)])
    numerator = {
        "even below": 4 * draw.below(20) + 1,
        "even above": 4 * draw.below(20) + 3,
        "high": 2 * high + 7 + draw.below(90),
        "low": 2 * low - 7 - draw.below(90),
        "beside high": 2 * high + 1 + draw.below(3),
        "beside low": 2 * low - 1 - draw.below(3),
        "whole": 2 * draw.below(40) - 38,
        "zero": 0,
        "between": 0,
    }.get(name, other.numerator)
    return Half(numerator, other.divisor)


def output_type(words: frozenset[str]) -> str:
    """Return the data type of the output."""
    return "int8" if "int8" in words else "uint8"


def weights(target: int, taps: Sequence[int], low: int, high: int) -> list[int]:
    """Return weights within bounds whose products with the taps add up to the target, nearly."""
    rest, found = target, dict[int, int]()
    for index in sorted(range(len(taps)), key=lambda index: -abs(taps[index])):
        wanted = rest // taps[index] if low >= 0 else round(Fraction(rest, taps[index]))
        found[index] = min(max(wanted, low), high)
        rest -= found[index] * taps[index]
    return [found[index] for index in range(len(taps))]


def half_over(name: str, divisor: int, words: frozenset[str], zero_point: int, draw: Draw) -> Half:
    """Return a half of a kind over this divisor."""
    sign, kind = -1 if name.startswith("-") else 1, name.lstrip("-")
    among = [half for half in halves().get(kind, []) if half.divisor == divisor]
    if among:
        half = among[draw.below(len(among))]
    else:
        other = Half(2 * draw.below(MOST) + 1, divisor)
        known = kind in halves()
        half = other if known else _half(kind, words, zero_point, other, draw)
    return Half(sign * half.numerator, divisor)
