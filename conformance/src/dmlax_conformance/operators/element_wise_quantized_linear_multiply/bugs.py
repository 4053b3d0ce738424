"""Planted bugs of ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from ...suite.bugs.binary import Binary, Element, Quotient, exact_product
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.record import Bug
from .._shared import binary_bugs as shared
from .._shared.binary_bugs import PART, fused, in_each, raw_in_floats
from .._shared.floats import Real, exactly

OPERATOR = "element_wise_quantized_linear_multiply"
ROOM = shared.Room(OPERATOR, "MUL", exact_product)
RULES, RESULT = ROOM.rules, "MUL-1"
PARTS = {PART: Binary(exact_product)}


def _in_integers(e: Element) -> Real:
    """Multiply and divide numerators and denominators only."""
    above = e.x * e.y * e.sa.numerator * e.sb.numerator * e.sy.denominator
    return exactly(Fraction(above, e.sa.denominator * e.sb.denominator * e.sy.numerator))


PERMITTED = (
    ("MUL-2", PART, "rounding", ROUNDINGS),
    ("MUL-1", PART, "quotient", {"integer-product": _in_integers}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from ROOM.derived()


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from ROOM.written({**FORMULAS, **WAYS}, ZERO_POINT_FIRST)


def _runtime(a: Any, za: Any, sa: Any, b: Any, zb: Any, sb: Any, sy: Any, zy: Any) -> Any:
    """Multiply by one multiplier, then add the zero point, as ONNX Runtime does."""
    return (a - za) * (b - zb) * ((sa * sb) / sy) + zy


def _runtime_fused(a: Any, za: Any, sa: Any, b: Any, zb: Any, sb: Any, sy: Any, zy: Any) -> Any:
    return fused((a - za) * (b - zb), (sa * sb) / sy, zy)


FORMULAS = in_each(
    {
        "terms": lambda x, y, sa, sb, sy: (x * sa) * (y * sb) / sy,
        "one-multiplier": lambda x, y, sa, sb, sy: x * y * (sa * sb / sy),
        "scale-ratio-first": lambda x, y, sa, sb, sy: x * y * (sa / sy * sb),
        "reciprocal": lambda x, y, sa, sb, sy: x * y * (sa * sb) * (type(sy)(1) / sy),
        "divides-last": lambda x, y, sa, sb, sy: x * y * (sa * sb) / sy,
    }
)
ZERO_POINT_FIRST: dict[str, Quotient] = in_each(
    {"runtime": _runtime, "runtime-fused": _runtime_fused}, raw_in_floats
)


def _product(change: Callable[[int], int]) -> Quotient:
    """Change the integer product."""
    return lambda e: exactly(change(e.x * e.y) * e.sa * e.sb / e.sy)


def _fixed_point(bits: int) -> Quotient:
    """Take a multiplier of so many bits."""
    return lambda e: exactly(e.x * e.y * shared.fixed_point(e.sa * e.sb / e.sy, bits))


WAYS: dict[str, Quotient] = {
    **{f"{bits}-bit-multiplier": _fixed_point(bits) for bits in (8, 16, 24, 31, 62)},
    "products-saturate-to-int16": _product(lambda p: min(max(p, -(2**15)), 2**15 - 1)),
    "products-wrap-to-int16": _product(lambda p: (p + 2**15) % 2**16 - 2**15),
    "products-wrap-to-uint16": _product(lambda p: p % 2**16),
    "products-without-sign": _product(abs),
    "high-halves-only": _product(lambda p: p >> 8 << 8),
    "adds": lambda e: exactly((e.x * e.sa + e.y * e.sb) / e.sy),
    "a-only": lambda e: exactly(e.x * e.sa / e.sy),
    "b-only": lambda e: exactly(e.y * e.sb / e.sy),
    "a-scale-squared": lambda e: exactly(e.x * e.y * e.sa * e.sa / e.sy),
    "output-scale-squared": lambda e: exactly(e.x * e.y * e.sa * e.sb / (e.sy * e.sy)),
    "differences-of-raw-b": lambda e: exactly(e.x * e.b * e.sa * e.sb / e.sy),
    "differences-of-raw-a": lambda e: exactly(e.a * e.y * e.sa * e.sb / e.sy),
}
