"""Planted bugs of the last step of an operator that quantizes."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from math import ceil, floor, trunc
from typing import Any

from ...suite.bugs.record import Bug, in_part
from ...suite.bugs.rounding import Rounding, full_range, round_then_add
from .floats import round_half_even
from .rounding import RANGES, clamp

HALF = Fraction(1, 2)


def of_rounding(
    operator: str, part: str, clauses: Mapping[str, str], label: str = ""
) -> Iterator[Bug]:
    """Yield the bugs of the last step of an operator that quantizes; a label begins their names."""
    for (topic, step), ways in ROUNDINGS.items():
        changed = {f"{label}{name}": Rounding(**{step: way}) for name, way in ways.items()}
        yield from in_part(operator, clauses[topic], part, "rounding", changed)


def _half_away(value: Fraction) -> int:
    return floor(value + HALF) if value >= 0 else ceil(value - HALF)


def _half_odd(value: Fraction) -> int:
    below = floor(value)
    return below + 1 - below % 2 if value - below == HALF else round_half_even(value)


def _twice(steps: int) -> Callable[[Fraction], int]:
    """Round to a fraction of an integer first."""
    return lambda value: round_half_even(Fraction(round_half_even(value * steps), steps))


def _by(rule: Callable[[Fraction], int]) -> Callable[[Fraction, int], int]:
    return lambda quotient, zero_point: rule(quotient) + zero_point


def _then(change: Callable[[int], int]) -> Callable[[Fraction, int], int]:
    """Change the rounded quotient before the zero point is added."""
    return lambda quotient, zero_point: change(round_half_even(quotient)) + zero_point


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _within(low: int, high: int, other: str) -> Callable[[int, str], int]:
    """Limit one data type to less than its range; the other is as it should be."""
    return lambda value, dtype: (
        full_range(value, dtype) if dtype == other else min(max(value, low), high)
    )


def _wrap_if(test: Callable[[int, int, int], bool], value: int, dtype: str) -> int:
    """Wrap what passes a test of its value and the ends of the range."""
    low, high = RANGES[dtype]
    return (value - low) % 256 + low if test(value, low, high) else full_range(value, dtype)


ROUNDINGS: dict[tuple[str, str], Mapping[str, Any]] = {  # by topic and step
    ("round", "place"): {
        "half-away-from-zero": _by(_half_away),
        "half-toward-zero": _by(lambda v: ceil(v - HALF) if v >= 0 else floor(v + HALF)),
        "half-up": _by(lambda value: floor(value + HALF)),
        "half-down": _by(lambda value: ceil(value - HALF)),
        "half-odd": _by(_half_odd),
        "half-even-if-positive": _by(lambda v: round_half_even(v) if v >= 0 else _half_away(v)),
        "truncates": _by(trunc),
        "floors": _by(floor),
        "ceils": _by(ceil),
        "zero-point-first": lambda quotient, zero: round_half_even(quotient + zero),
        "plus-half-truncated": lambda quotient, zero: trunc(quotient + zero + HALF),
    },
    ("exact", "place"): {
        "rounds-twice": _by(_twice(16)),
        "rounds-twice-fine": _by(_twice(2**16)),
        "one-too-high": lambda quotient, zero: round_then_add(quotient, zero) + 1,
    },
    ("clamp", "place"): {
        "clamps-before-zero-point": _then(lambda value: clamp(value, "int8")),
        "clamps-to-16-bits-first": _then(lambda value: _wrapped(value, 16)),
        "clamps-to-32-bits-first": _then(lambda value: _wrapped(value, 32)),
        "quotient-of-32-bits-is-lowest": _then(  # as when a float is cast
            lambda value: value if -(2**31) <= value < 2**31 else -(2**31)
        ),
    },
    ("clamp", "clamp"): {
        "clamps-to-minus-127": _within(-127, 127, "uint8"),
        "clamps-uint8-to-254": _within(0, 254, "int8"),
        "clamps-uint8-from-1": _within(1, 255, "int8"),
        "clamps-int8-to-126": _within(-128, 126, "uint8"),
        "clamps-uint8-to-127": _within(0, 127, "int8"),
        "clamps-int8-from-0": _within(0, 127, "uint8"),
        "wraps": partial(_wrap_if, lambda value, low, high: True),
        "wraps-above": partial(_wrap_if, lambda value, low, high: value > high),
        "wraps-below": partial(_wrap_if, lambda value, low, high: value < low),
    },
}
