"""Planted bugs of the last step, the same in both operators that quantize."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, trunc
from typing import NamedTuple

from ...operators._shared.floats import round_half_even
from ...operators._shared.rounding import RANGES, clamp
from .record import HONEST, Mutant, mutant
from .rounding import Rounding, full_range, round_then_add

HALF = Fraction(1, 2)


class Place(NamedTuple):
    """An operator that quantizes: the part of the implementation, and its clauses by topic."""

    operator: str
    part: str
    clauses: Mapping[str, str]


PLACES = (
    Place(
        "quantized_linear_convolution",
        "requantize",
        {"round": "QLC-5", "clamp": "QLC-6", "zero": "QLC-5 QLC-6", "exact": "QLC-1"},
    ),
    Place(
        "element_wise_quantize_linear",
        "quantize",
        {"round": "QNT-2", "clamp": "QNT-3", "zero": "QNT-1 QNT-3", "exact": "QNT-1"},
    ),
)


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module, once for each operator."""
    for place in PLACES:
        for topic, name, about, rounding in _bugs():
            part = replace(getattr(HONEST, place.part), rounding=rounding)
            made = replace(HONEST, **{place.part: part})
            yield mutant(place.operator, name, place.clauses[topic], about, made)


def _bugs() -> Iterator[tuple[str, str, str, Rounding]]:
    for name, (about, rule) in RULES.items():
        topic = "exact" if name.startswith("rounds-twice") else "round"
        yield topic, name, about, Rounding(place=_by(rule))
    for name, (topic, about, place) in PLACED.items():
        yield topic, name, about, Rounding(place=place)
    for name, (about, limit) in LIMITS.items():
        yield "clamp", name, about, Rounding(clamp=limit)


def _by(rule: Callable[[Fraction], int]) -> Callable[[Fraction, int], int]:
    return lambda quotient, zero_point: rule(quotient) + zero_point


# -- rounding ----------------------------------------------------------------------------------


def _half_away(value: Fraction) -> int:
    return floor(value + HALF) if value >= 0 else ceil(value - HALF)


def _half_toward_zero(value: Fraction) -> int:
    return ceil(value - HALF) if value >= 0 else floor(value + HALF)


def _half_odd(value: Fraction) -> int:
    below = floor(value)
    return below + 1 - below % 2 if value - below == HALF else round_half_even(value)


def _twice(steps: int) -> Callable[[Fraction], int]:
    """Round to a fraction of an integer first."""
    return lambda value: round_half_even(Fraction(round_half_even(value * steps), steps))


def _half_even_if_positive(value: Fraction) -> int:
    return round_half_even(value) if value >= 0 else _half_away(value)


RULES: dict[str, tuple[str, Callable[[Fraction], int]]] = {
    "half-away-from-zero": ("ties go away from zero", _half_away),
    "half-toward-zero": ("ties go toward zero", _half_toward_zero),
    "half-up": ("ties go up", lambda value: floor(value + HALF)),
    "half-down": ("ties go down", lambda value: ceil(value - HALF)),
    "half-odd": ("ties go to the odd integer", _half_odd),
    "half-even-if-positive": ("negative ties go away from zero", _half_even_if_positive),
    "truncates": ("the quotient is truncated", trunc),
    "floors": ("the quotient is rounded down", floor),
    "ceils": ("the quotient is rounded up", ceil),
    "rounds-twice": ("the quotient is rounded to a sixteenth first", _twice(16)),
    "rounds-twice-fine": ("the quotient is rounded to 16 binary places first", _twice(2**16)),
}


# -- zero point --------------------------------------------------------------------------------


def _added_first(quotient: Fraction, zero_point: int) -> int:
    return round_half_even(quotient + zero_point)


def _added_first_half_up(quotient: Fraction, zero_point: int) -> int:
    """Do as the usual C: (int)(x / scale + zero + 0.5)."""
    return trunc(quotient + zero_point + HALF)


PLACED: dict[str, tuple[str, str, Callable[[Fraction, int], int]]] = {
    "zero-point-first": ("round", "the zero point is added before rounding", _added_first),
    "plus-half-truncated": (
        "round",
        "a half is added to quotient and zero point, then the sum is truncated",
        _added_first_half_up,
    ),
    "no-output-zero-point": (
        "zero",
        "the zero point of the output is not added",
        lambda quotient, zero_point: round_half_even(quotient),
    ),
    "output-zero-point-subtracted": (
        "zero",
        "the zero point of the output is subtracted",
        lambda quotient, zero_point: round_half_even(quotient) - zero_point,
    ),
    "output-zero-point-is-signed": (
        "zero",
        "a zero point of 128 or more is read as negative",
        lambda quotient, zero_point: round_half_even(quotient) + (zero_point + 128) % 256 - 128,
    ),
    "one-too-high": (
        "exact",
        "every result is one too high",
        lambda quotient, zero_point: round_then_add(quotient, zero_point) + 1,
    ),
    "clamps-before-zero-point": (
        "clamp",
        "the rounded quotient is limited to INT8 before the zero point is added",
        lambda quotient, zero_point: clamp(round_half_even(quotient), "int8") + zero_point,
    ),
    "clamps-to-16-bits-first": (
        "clamp",
        "the rounded quotient wraps at 16 bits before it is limited",
        lambda quotient, zero_point: _wrapped(round_half_even(quotient), 16) + zero_point,
    ),
    "clamps-to-32-bits-first": (
        "clamp",
        "the rounded quotient wraps at 32 bits before it is limited",
        lambda quotient, zero_point: _wrapped(round_half_even(quotient), 32) + zero_point,
    ),
    "quotient-of-32-bits-is-lowest": (
        "clamp",
        "a quotient that leaves 32 bits becomes -2^31, as when a float is cast",
        lambda quotient, zero_point: _cast(round_half_even(quotient)) + zero_point,
    ),
}


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _cast(value: int) -> int:
    return value if -(2**31) <= value < 2**31 else -(2**31)


# -- saturation --------------------------------------------------------------------------------


def _within(signed: tuple[int, int], unsigned: tuple[int, int]) -> Callable[[int, str], int]:
    ends = {"int8": signed, "uint8": unsigned}
    return lambda value, dtype: min(max(value, ends[dtype][0]), ends[dtype][1])


def _modulo(value: int, dtype: str) -> int:
    low, _ = RANGES[dtype]
    return (value - low) % 256 + low


def _modulo_above(value: int, dtype: str) -> int:
    return _modulo(value, dtype) if value > RANGES[dtype][1] else full_range(value, dtype)


def _modulo_below(value: int, dtype: str) -> int:
    return _modulo(value, dtype) if value < RANGES[dtype][0] else full_range(value, dtype)


LIMITS: dict[str, tuple[str, Callable[[int, str], int]]] = {
    "clamps-to-minus-127": ("INT8 ends at -127", _within((-127, 127), (0, 255))),
    "clamps-uint8-to-254": ("UINT8 ends at 254", _within((-128, 127), (0, 254))),
    "clamps-uint8-from-1": ("UINT8 begins at 1", _within((-128, 127), (1, 255))),
    "clamps-int8-to-126": ("INT8 ends at 126", _within((-128, 126), (0, 255))),
    "clamps-uint8-to-127": ("UINT8 is limited like INT8 above", _within((-128, 127), (0, 127))),
    "clamps-int8-from-0": ("INT8 is limited like UINT8 below", _within((0, 127), (0, 255))),
    "wraps": ("the result wraps instead of saturating", _modulo),
    "wraps-above": ("the result wraps above, and saturates below", _modulo_above),
    "wraps-below": ("the result wraps below, and saturates above", _modulo_below),
}
