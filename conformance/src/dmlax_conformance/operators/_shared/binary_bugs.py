"""Planted bugs that both operators on two quantized tensors can have."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...suite.bugs.binary import Binary, Element, Quotient, repeated
from ...suite.bugs.descs import DescRules
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import VALUES, Bug, bug, in_part
from ...suite.bugs.refusals import Rules
from ...suite.bugs.rounding import Rounding
from ...suite.bugs.steps import Array, Call, Sizes, of_float, to_float
from . import floats
from .binary_rules import POINTS, SCALES, TENSORS, TYPES
from .floats import Real, round_half_even
from .rounding_bugs import of_rounding

OUTPUT = "OutputTensor"
PART = "binary"
FLOATS = ("float32", "float64")


class Room:
    """The bugs' parts that follow from an operator's name, clauses' prefix and exact step."""

    def __init__(self, operator: str, prefix: str, exact: Quotient) -> None:
        """Derive the rules."""
        self.operator, self.prefix, self.exact = operator, prefix, exact
        self.rules = Rules(
            operator,
            {"data_type": self.clauses(4), "dimension_count": self.clauses(5)}
            | {"sizes": self.clauses(5, 6), "value": self.clauses(7)}
            | {"missing_tensor": self.clauses(8)},
            {
                "data_type": f"ATensor:int16,float32 BTensor:int32 {' '.join(SCALES)}"
                f" AZeroPointTensor:int8 BZeroPointTensor:uint8,int32 OutputZeroPointTensor:int8"
                f" {OUTPUT}",
                "sizes": f"BTensor {' '.join((*SCALES, *POINTS))}",
                "value": " ".join(f"{name}:minus-zero" for name in SCALES),
            },
        )

    def descs(self, prefix: str) -> DescRules:
        """Return the relations between the rules of its descs."""
        everything = ("ATensor", *(n for n in (*TENSORS, *SCALES, *POINTS) if n != "ATensor"))
        reason = "its data type is another tensor's, and its DimensionCount that of other tensors"
        implied = dict.fromkeys(POINTS, reason)
        implied["tensor-element-limit"] = "the output cannot be so large"
        alike = {"DataType": tuple((own, point) for point, own in TYPES.items())}
        return DescRules(self.operator, implied, "", {**alike, "DimensionCount": (everything,)})

    def clauses(self, *numbers: int) -> str:
        """Return clauses by number."""
        return " ".join(f"{self.prefix}-{number}" for number in numbers)

    def derived(self) -> Iterator[Bug]:
        """Yield the bugs that follow from the operator's fields."""
        roles = {name: (self.clauses(1, 4, 5), "axes elements signed") for name in TENSORS[:2]}
        roles |= {name: (self.clauses(1, 7), "scale subnormal") for name in SCALES}
        roles |= {" ".join(SCALES): (self.clauses(1, 7), "scale")}
        roles |= {name: (self.clauses(1, 2), "zero-point") for name in POINTS}
        yield from readings(self.operator, roles)
        yield from zero_points(self.operator, self.clauses(8), TYPES)
        yield from outputs(self.operator, {OUTPUT: (self.clauses(4), self.clauses(5))})

    def written(
        self, ways: Mapping[str, Quotient], before: Mapping[str, Quotient]
    ) -> Iterator[Bug]:
        """Yield the others: ways to the quotient, and ways that end with the zero point added."""
        exact, shapes = self.clauses(1), self.clauses(5)
        clauses = {"round": self.clauses(2), "clamp": self.clauses(3), "exact": exact}
        yield from of_rounding(self.operator, PART, clauses)
        yield from in_part(self.operator, exact, PART, "quotient", ways)
        for name, way in before.items():
            part = Binary(way, rounding=ZERO_POINT_FIRST)
            yield bug(self.operator, name, self.clauses(1, 2), VALUES, **{PART: part})
        yield from in_part(self.operator, exact, PART, "centre", CENTRES)
        yield from in_part(self.operator, shapes, PART, "repeat", _repeats())
        for name, pair in SWAPS.items():
            if name == "scales" and self.prefix == "MUL":
                continue  # which changes no product
            yield bug(self.operator, f"swaps-{name}", exact, VALUES, read=partial(_swap, *pair))


ZERO_POINT_FIRST = Rounding(place=lambda quotient, zero: round_half_even(quotient + zero))


# -- arithmetic --------------------------------------------------------------------------------


def number(value: Fraction, dtype: str) -> Any:
    """Return the float nearest to a fraction."""
    return to_float(value, dtype)


def fused(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""
    if not np.isfinite([a, b, c]).all():
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return to_float(exact, a.dtype.name)


def in_floats(formula: Callable[..., Any], dtype: str, e: Element) -> Real:
    """Compute with differences and scales in a float type: x, y, sa, sb, sy."""
    own = (to_float(Fraction(value), dtype) for value in (e.x, e.y, e.sa, e.sb, e.sy))
    return of_float(formula(*own))


def raw_in_floats(formula: Callable[..., Any], dtype: str, e: Element) -> Real:
    """Compute with what is stored, up to the zero point: a, za, sa, b, zb, sb, sy, zy."""
    values = (e.a, e.za, e.sa, e.b, e.zb, e.sb, e.sy, e.zy)
    found = of_float(formula(*(to_float(Fraction(value), dtype) for value in values)))
    return floats.exactly(found.value - e.zy) if found.kind == "finite" else found


def in_each(ways: Mapping[str, Callable[..., Any]], kind: Any = in_floats) -> dict[str, Quotient]:
    """Return each formula in float32 and in float64."""
    return {f"{d}-{name}": partial(kind, way, d) for name, way in ways.items() for d in FLOATS}


def fixed_point(value: Fraction, bits: int) -> Fraction:
    """Return a multiplier with so many bits."""
    if value == 0:
        return value
    above, below = abs(value.numerator).bit_length(), value.denominator.bit_length()
    unit = Fraction(2) ** (above - below - bits)
    return round_half_even(value / unit) * unit


# -- zero points -------------------------------------------------------------------------------


def _wrapped(word: int, zero_point: int, dtype: str) -> int:
    return (word - zero_point + 128) % 256 - 128


def _limited(low: int, high: int) -> Callable[[int, int, str], int]:
    return lambda word, zero_point, dtype: min(max(word - zero_point, low), high)


CENTRES: Mapping[str, Callable[[int, int, str], int]] = {
    "differences-wrap-to-8-bits": _wrapped,
    "differences-saturate-to-int8": _limited(-128, 127),
    "differences-are-not-negative": _limited(0, 255),
    "differences-from-the-middle": lambda word, zero_point, dtype: (
        word - 128 if dtype == "uint8" else word
    ),
}


# -- repetition --------------------------------------------------------------------------------


def _cycled(own: Array, sizes: Sizes) -> Array:
    return np.resize(own, sizes)


def _stretched(own: Array, sizes: Sizes) -> Array:
    count = int(np.prod(sizes))
    return np.repeat(own.reshape(-1), -(-count // own.size))[:count].reshape(sizes)


def _aligned_left(own: Array, sizes: Sizes) -> Array:
    shape = own.shape + (1,) * (len(sizes) - own.ndim)
    fits = all(size in (1, wanted) for size, wanted in zip(shape, sizes, strict=True))
    return np.broadcast_to(own.reshape(shape) if fits else own, sizes)


def _first_of_last_axis(own: Array, sizes: Sizes) -> Array:
    return np.broadcast_to(own[..., :1] if own.ndim else own, sizes)


def _first_of_first_axis(own: Array, sizes: Sizes) -> Array:
    return np.broadcast_to(own[:1] if own.ndim else own, sizes)


REPEATS = {
    "cycled": _cycled,
    "stretched": _stretched,
    "aligned-left": _aligned_left,
    "first-of-last-axis": _first_of_last_axis,
    "first-of-first-axis": _first_of_first_axis,
}


def _repeats() -> dict[str, Callable[[Array, Sizes, str], Array]]:
    """Return wrong ways for A, for B, and for outputs of each rank."""
    found = {}
    for way, repeat in REPEATS.items():
        for name in ("A", "B"):
            found[f"{name.lower()}-{way}"] = _only(repeat, lambda rank, own, n=name: own == n)
    for rank in range(2, 9):
        for way in ("cycled", "stretched"):
            found[f"{way}-at-rank-{rank}"] = _only(REPEATS[way], lambda r, own, n=rank: r == n)
    return found


def _only(
    repeat: Callable[[Array, Sizes], Array], when: Callable[..., bool]
) -> Callable[[Array, Sizes, str], Array]:
    """Repeat wrongly what has other sizes than the output, on one side or at one rank."""
    return lambda own, sizes, name: (
        repeat(own, sizes)
        if own.shape != sizes and own.size and when(len(sizes), name)
        else repeated(own, sizes, name)
    )


# -- exchanged fields --------------------------------------------------------------------------

SWAPS = {
    "operands": ("ATensor", "BTensor"),
    "scales": ("AScaleTensor", "BScaleTensor"),
    "zero-points": ("AZeroPointTensor", "BZeroPointTensor"),
    "scale-of-a-and-output": ("AScaleTensor", "OutputScaleTensor"),
    "zero-point-of-a-and-output": ("AZeroPointTensor", "OutputZeroPointTensor"),
}


def _swap(one: str, two: str, call: Call) -> Call:
    """Exchange two tensors, where both are there."""
    if one not in call.inputs or two not in call.inputs:
        return call
    swapped = {one: call.inputs[two], two: call.inputs[one]}
    return call._replace(inputs={**call.inputs, **swapped})
