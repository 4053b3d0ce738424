"""Planted bugs of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ...suite.bugs.binary import Binary, Element, Quotient, exact_sum
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.record import Bug
from .._shared import binary_bugs as shared
from .._shared.binary_bugs import PART, fused, in_each, raw_in_floats
from .._shared.floats import Real, exactly, round_half_even

OPERATOR = "element_wise_quantized_linear_add"
ROOM = shared.Room(OPERATOR, "ADD", exact_sum)
RULES, DESCS, RESULT = ROOM.rules, ROOM.descs("qadd"), "ADD-1"
PARTS = {PART: Binary(exact_sum)}


def _in_integers(e: Element) -> Real:
    """Bring both terms to one unit first."""
    unit = e.sa.denominator * e.sb.denominator
    total = e.x * int(e.sa * unit) + e.y * int(e.sb * unit)
    return exactly(Fraction(total * e.sy.denominator, unit * e.sy.numerator))


PERMITTED = (
    ("ADD-2", PART, "rounding", ROUNDINGS),
    ("ADD-1", PART, "quotient", {"integer-sum": _in_integers}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from ROOM.derived()


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from ROOM.written({**FORMULAS, **WAYS}, ZERO_POINT_FIRST)


def _runtime(a: Any, za: Any, sa: Any, b: Any, zb: Any, sb: Any, sy: Any, zy: Any) -> Any:
    """Add by two multipliers and three fused steps, as ONNX Runtime does."""
    ra, rb = sa / sy, sb / sy
    return fused(a, ra, fused(b, rb, zy - fused(ra, za, rb * zb)))


def _runtime_swapped(a: Any, za: Any, sa: Any, b: Any, zb: Any, sb: Any, sy: Any, zy: Any) -> Any:
    return _runtime(b, zb, sb, a, za, sa, sy, zy)


def _runtime_unfused(a: Any, za: Any, sa: Any, b: Any, zb: Any, sb: Any, sy: Any, zy: Any) -> Any:
    ra, rb = sa / sy, sb / sy
    return a * ra + (b * rb + (zy - (ra * za + rb * zb)))


FORMULAS = in_each(
    {
        "terms": lambda x, y, sa, sb, sy: (x * sa + y * sb) / sy,
        "terms-fused": lambda x, y, sa, sb, sy: fused(x, sa, y * sb) / sy,
        "terms-fused-on-b": lambda x, y, sa, sb, sy: fused(y, sb, x * sa) / sy,
        "reciprocal": lambda x, y, sa, sb, sy: (x * sa + y * sb) * (type(sy)(1) / sy),
        "multipliers": lambda x, y, sa, sb, sy: x * (sa / sy) + y * (sb / sy),
        "multipliers-fused": lambda x, y, sa, sb, sy: fused(x, sa / sy, y * (sb / sy)),
        "quotients": lambda x, y, sa, sb, sy: x * sa / sy + y * sb / sy,
        "ratio-of-scales": lambda x, y, sa, sb, sy: (x * (sa / sb) + y) * (sb / sy),
    }
)
ZERO_POINT_FIRST: dict[str, Quotient] = in_each(
    {
        "runtime": _runtime,
        "runtime-swapped": _runtime_swapped,
        "runtime-unfused": _runtime_unfused,
    },
    raw_in_floats,
)


def _two_roundings(e: Element) -> Real:
    terms = (e.x * e.sa / e.sy, e.y * e.sb / e.sy)
    return exactly(Fraction(sum(map(round_half_even, terms))))


def _fixed_point(bits: int) -> Quotient:
    """Take multipliers of so many bits."""
    return lambda e: exactly(
        e.x * shared.fixed_point(e.sa / e.sy, bits) + e.y * shared.fixed_point(e.sb / e.sy, bits)
    )


def _without_small_terms(bits: int) -> Quotient:
    """Drop the term that is so many bits below the other."""

    def quotient(e: Element) -> Real:
        one, two = e.x * e.sa, e.y * e.sb
        small, large = sorted((one, two), key=abs)
        return exactly((large + (small if abs(small) * 2**bits > abs(large) else 0)) / e.sy)

    return quotient


def _with_scale_sticky(e: Element) -> Real:
    """Let a term count by its scale although its operand equals the zero point."""
    least = min(abs(e.sa), abs(e.sb))
    total = e.x * e.sa + e.y * e.sb
    far = max(abs(e.sa), abs(e.sb)) > least * 2**40
    return exactly((total + (least if far and 0 in (e.x, e.y) else 0)) / e.sy)


def _signed(change: Any) -> Quotient:
    return lambda e: exactly(change(e.x * e.sa, e.y * e.sb) / e.sy)


WAYS: dict[str, Quotient] = {
    "two-roundings": _two_roundings,
    **{f"{bits}-bit-multipliers": _fixed_point(bits) for bits in (8, 16, 22, 31, 62)},
    **{f"drops-terms-{bits}-bits-below": _without_small_terms(bits) for bits in (24, 53, 64, 128)},
    "counts-a-term-of-0": _with_scale_sticky,
    "subtracts": _signed(lambda a, b: a - b),
    "subtracts-from-b": _signed(lambda a, b: b - a),
    "multiplies": _signed(lambda a, b: a * b),
    "a-only": _signed(lambda a, b: a),
    "b-only": _signed(lambda a, b: b),
    "averages": _signed(lambda a, b: (a + b) / 2),
    "largest": _signed(max),
    "one-scale-for-both": lambda e: exactly((e.x + e.y) * e.sa / e.sy),
    "output-scale-ignored-for-b": lambda e: exactly(e.x * e.sa / e.sy + e.y * e.sb),
    "magnitudes": _signed(lambda a, b: abs(a) + abs(b)),
}
