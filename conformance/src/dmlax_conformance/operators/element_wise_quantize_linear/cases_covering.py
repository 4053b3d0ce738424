"""ELEMENT_WISE_QUANTIZE_LINEAR: every value class at every structure, in few calls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import prod
from typing import NamedTuple

from ...format.tensors import Tensor
from .._shared import floats
from .._shared.element_wise import zero_points
from .._shared.element_wise_cases import ElementWiseTopic
from .._shared.element_wise_covering import Plan, kinds, parameter_sizes, places
from .._shared.floats import Real, exactly, round_half_even
from .._shared.near_ties import Draw
from .._shared.rounding import RANGES
from .._shared.value_classes import HALF, extended
from ..topics import Files, bits, drawn, ints
from .cases import OPERATOR

topics = Files(OPERATOR, ElementWiseTopic)
MOST = 89  # of a rounded quotient, so that it is no end of the range

# -- scales over which arithmetic errs ---------------------------------------------------------


class Method(NamedTuple):
    """An arithmetic that errs: its quotient, from input and scale, both exact in their types."""

    name: str
    quotient: Callable[[Real, Real, str], Real]


def _by_extended_reciprocal(x: Real, scale: Real, dtype: str) -> Real:
    return exactly(extended(x.value * extended(1 / scale.value)))


def _by_reciprocal(x: Real, scale: Real, dtype: str) -> Real:
    return floats.multiply(x, floats.divide(exactly(Fraction(1)), scale, dtype), dtype)


METHODS = (
    Method("division", floats.divide),
    Method("reciprocal", _by_reciprocal),
    Method("float64 reciprocal", lambda x, s, dtype: _by_reciprocal(x, s, "float64")),
    Method("extended reciprocal", _by_extended_reciprocal),
)
BY_TURNS = "float64 reciprocal", "extended reciprocal"
BITS = {"float32": 20, "float16": 8, "int32": 24}  # of a scale's odd mantissa
UNITS = {"float32": (-19, -145), "float16": (-7, -23), "int32": (1,)}  # the second ones are tiny


class Scale(NamedTuple):
    """A scale, and for each method the odd numerators of halves that it gets wrong."""

    value: Fraction
    wrong: Mapping[str, tuple[int, ...]]


@cache
def scales(source: str, number: int) -> tuple[Scale, ...]:
    """Return scales of each unit, over which methods err: one of the last two by turns."""
    draw, found = Draw(BITS[source]), list[Scale]()
    while len(found) < number * len(UNITS[source]):
        unit = UNITS[source][len(found) % len(UNITS[source])]
        scale = draw.odd(BITS[source]) * Fraction(2) ** unit
        wrong = {each.name: tuple(_misplaced(each, scale, source)) for each in METHODS}
        needed = "division", "reciprocal", BY_TURNS[len(found) // len(UNITS[source]) % 2]
        if all(wrong[each] for each in needed) and scale not in (each.value for each in found):
            found.append(Scale(scale, wrong))
    if source == "int32":
        found.append(Scale(Fraction(12345, 2**30), {}))
    return tuple(found)


def _misplaced(method: Method, scale: Fraction, source: str) -> Iterator[int]:
    """Yield the odd numerators of halves that the method, with such inputs, gets wrong."""
    own = "float32" if source == "int32" else source
    for numerator in range(1, 2 * MOST, 2):
        x = _input(numerator * HALF * scale, source)
        given = floats.nearest(x, own) if source == "int32" else x
        quotient = method.quotient(given, exactly(scale), own)
        right = round_half_even(x.value / scale)
        if quotient.kind == "finite" and round_half_even(quotient.value) != right:
            yield numerator


def _input(value: Fraction, source: str) -> Real:
    """Return the input nearest to a number."""
    if source == "int32":
        return exactly(Fraction(min(max(round_half_even(value), -(2**31)), 2**31 - 1)))
    return floats.nearest(exactly(value), source)


# -- quotients of each class -------------------------------------------------------------------


KINDS = (
    *(method.name for method in METHODS),
    *("even below", "even above", "-division", "-reciprocal", "-even below", "whole", "between"),
    *("beside high", "beside low", "high", "low", "far high", "far low", "highest", "lowest"),
    *("zero", "minus zero", "subnormal", "-subnormal", "infinity", "-infinity", "NaN"),
)
WORDS = {  # of float32 and float16
    "minus zero": (0x80000000, 0x8000),
    "subnormal": (0x00000155, 0x0055),
    "-subnormal": (0x80012345, 0x8123),
    "infinity": (0x7F800000, 0x7C00),
    "-infinity": (0xFF800000, 0xFC00),
    "NaN": (0x7FC00000, 0x7E00),
}
FAR = {"float32": 2**100, "float16": 65504, "int32": 2**31 - 1}


def word(kind: str, scale: Scale, zero_point: int, plan: Plan, draw: Draw) -> int:
    """Return an input whose quotient by the scale is of the kind."""
    source = plan.source
    if kind in WORDS and source != "int32":
        return WORDS[kind][source == "float16"]
    low, high = (end - zero_point for end in RANGES[plan.output])
    side = -1 if kind.startswith("-") else 1
    name = kind.lstrip("-")
    if scale.wrong.get(name):
        quotient = Fraction(side * _one_of(scale.wrong[name], draw), 2)
    else:
        quotient = {
            "even below": side * Fraction(4 * draw.below(4) + 1, 2),
            "even above": side * Fraction(4 * draw.below(4) + 3, 2),
            "between": Fraction(draw.below(900) - 450, 7),
            "beside high": Fraction(4 * high + 2 + draw.below(5), 4),
            "beside low": Fraction(4 * low - 2 - draw.below(5), 4),
            "high": Fraction(high + 3 + draw.below(200)),
            "low": Fraction(low - 3 - draw.below(200)),
            "far high": Fraction(33000 + draw.below(30000)),
            "far low": Fraction(-33000 - draw.below(30000)),
            "highest": FAR[source] / abs(scale.value),
            "lowest": -FAR[source] / abs(scale.value),
            "zero": Fraction(0),
        }.get(name, Fraction(draw.below(120) - 60))
    x = _input(quotient * scale.value, source)
    return int(x.value) if source == "int32" else floats.encode(x, source)


def _one_of(choices: Sequence[int], draw: Draw) -> int:
    return choices[draw.below(len(choices))]


# -- calls -------------------------------------------------------------------------------------


PLANS = """
71 float32 int8 one absent
79 float16 uint8 one one
95 int32 int8 one one
127 float16 uint8 each each
129 int32 uint8 each absent
143 float16 int8 each one
7 float32 int8 one one
6 float32 uint8 each absent
7 float16 uint8 one one
5 int32 int8 each each
6 float32 int8 each one
7 int32 uint8 one absent
7 float32 uint8 one one
5 float32 int8 one one
7 float16 int8 one one
3x47 float16 int8 odd last
7 float16 int8 each each
3x47 float32 int8 first last
2x63 float16 uint8 last first
5x41 int32 uint8 first one
4x39 float32 uint8 last absent
2x3x31 float32 int8 odd last
3x2x23 float16 uint8 last even
2x5x15 int32 int8 one first
2x2x3x15 float16 int8 odd even
""".strip().splitlines()
RANKS = """
2x3x2x9 float32 uint8 first each
2x2x2x3x7 float16 int8 even odd
2x3x2x2x5 float32 uint8 last first
3x2x2x2x2x3 float32 int8 odd one
2x2x2x2x3x3 float16 uint8 first last
2x2x2x2x2x2x3 float16 int8 even first
2x2x2x2x2x2x2 float32 uint8 first last
3x2x2x2x2x2x2 int32 uint8 last absent
2x2x2x2x2x2x2x3 float16 uint8 odd even
3x2x2x2x2x2x2x2 float32 int8 first odd
289 float16 int8 each absent
""".strip().splitlines()
MORE = """
7 float32 int8 one one
6 float32 int8 each each
15 float32 uint8 each each
5 int32 int8 each each
2x2x2x7 float32 int8 odd each
2x2x3x2x2x2 float32 uint8 even first
2x2x2x2x2x2x2 float32 int8 odd one
15 float32 int8 each one
23 float32 uint8 each absent
15 int32 int8 each one
15 float16 int8 each one
15 float32 uint8 each one
15 float16 uint8 each one
15 float32 int8 each absent
""".strip().splitlines()


@topics.file("covering")
def _covering(topic: ElementWiseTopic) -> None:
    for number, text in enumerate(PLANS, 1):
        _add(topic, f"covering-{number}", Plan.of(text), number)


@topics.file("covering-ranks")
def _covering_ranks(topic: ElementWiseTopic) -> None:
    for number, text in enumerate(RANKS, 1):
        _add(topic, f"covering-ranks-{number}", Plan.of(text), number + len(PLANS))


@topics.file("covering-more")
def _covering_more(topic: ElementWiseTopic) -> None:
    for number, text in enumerate(MORE, 1):
        _add(topic, f"covering-more-{number}", Plan.of(text), number + len(PLANS) + len(RANKS))


def _add(topic: ElementWiseTopic, name: str, plan: Plan, number: int) -> None:
    draw, dtype = Draw(1000 + number), "float32" if plan.source == "int32" else plan.source
    own = parameter_sizes(plan.scale, plan.sizes)
    chosen = [_scale(plan.source, number, index) for index in range(prod(own))]
    values = [floats.encode(exactly(each.value), dtype) for each in chosen]
    zero = _zero_point(plan, number)
    points = zero_points(zero, Tensor(plan.source, plan.sizes, (0,) * plan.count))
    words, listed = list[int](), dict[int, tuple[tuple[int, ...], str]]()
    given = zip(kinds(KINDS, plan, number), places(own, plan.sizes), points, strict=True)
    for index, (kind, place, point) in enumerate(given):
        words.append(word(kind, chosen[place], point, plan, draw))
        if kind == "NaN" and plan.source != "int32":
            low, high = RANGES[plan.output]
            listed[index] = ((low, point, high), "the pages are silent")
    operands = bits(plan.source, plan.sizes, words), bits(dtype, own, values), zero
    topic.add(name, plan.about, CLAUSE, plan.output, FLAGS, *operands, listed=listed)


CLAUSE = "QNT-1 QNT-2 QNT-3 QNT-4 QNT-5 QNT-6 QNT-7"
FLAGS = "Tie NearTieFloat32 Saturation SpecialFloat OddScale"


def _scale(source: str, number: int, index: int) -> Scale:
    """Return a scale; some are negative."""
    among = scales(source, 2)
    scale = among[(number + index) % len(among)]
    return scale._replace(value=-scale.value) if (number + index) // 2 % 2 else scale


def _zero_point(plan: Plan, number: int) -> Tensor | None:
    """Return odd zero points that leave room for the halves on both sides."""
    if plan.zero_point == "absent":
        return None
    low, high = {"int8": (-26, 24), "uint8": (100, 150)}[plan.output]
    sizes = parameter_sizes(plan.zero_point, plan.sizes)
    halves = drawn(plan.output, sizes, 1100 + number, low // 2, high // 2)
    return ints(plan.output, sizes, (2 * half + 1 for half in halves.words))
