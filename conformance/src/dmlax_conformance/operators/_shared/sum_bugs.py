"""Ways to the quotient of a sum that are wrong, or right as well."""

from fractions import Fraction
from functools import partial
from typing import Any

from ...suite.bugs.binary import Element, Quotient
from .binary_bugs import fixed_point, fused, in_each, raw_in_floats
from .floats import Real, exactly, round_half_even


def in_integers(e: Element) -> Real:
    """Bring both terms to one unit first."""
    unit = e.sa.denominator * e.sb.denominator
    total = e.x * int(e.sa * unit) + e.y * int(e.sb * unit)
    return exactly(Fraction(total * e.sy.denominator, unit * e.sy.numerator))


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
        e.x * fixed_point(e.sa / e.sy, bits) + e.y * fixed_point(e.sb / e.sy, bits)
    )


def _without_small_terms(bits: int, e: Element) -> Real:
    """Drop the term that is so many bits below the other."""
    one, two = e.x * e.sa, e.y * e.sb
    small, large = sorted((one, two), key=abs)
    return exactly((large + (small if abs(small) * 2**bits > abs(large) else 0)) / e.sy)


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
    **{
        f"drops-terms-{bits}-bits-below": partial(_without_small_terms, bits)
        for bits in (24, 53, 64, 128)
    },
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
