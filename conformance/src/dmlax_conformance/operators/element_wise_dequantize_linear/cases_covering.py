"""ELEMENT_WISE_DEQUANTIZE_LINEAR: every value class at every structure, in few calls."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from math import prod
from typing import NamedTuple

import numpy as np

from ...format.tensors import DTYPES
from .._shared.cross import masks
from .._shared.element_wise_cases import ElementWiseTopic
from .._shared.element_wise_covering import Plan, parameter_sizes, places
from .._shared.floats import FORMATS
from .._shared.near_ties import Draw
from ..topics import Files, floats, ints
from .cases import OPERATOR
from .products import Products
from .structures import PRODUCTS

topics = Files(OPERATOR, ElementWiseTopic)

# -- parameters --------------------------------------------------------------------------------


class Scale(NamedTuple):
    """An odd mantissa, whose product with a small odd integer is a tie, a sign and an exponent."""

    mantissa: int
    exponent: int
    sign: int

    @property
    def value(self) -> float:
        """The scale, exact in its data type."""
        return float(np.ldexp(float(self.sign * self.mantissa), self.exponent))


MANTISSAS = {  # times 5 and 7, or 3 and 5, they are ties of both parities
    "float32": (4021333, 3999671, 4137013, 4180307, 4060963),
    "float16": (719, 733, 781, 763, 809),
}
EXPONENTS = {  # for inputs of 8, 16 and 32 bits: medium, subnormal, and so high that it overflows
    "float32": {8: (-30, -149, 101), 16: (-37, -149, 92), 32: (-45, -149, 76)},
    "float16": {8: (-14, -24, 0), 16: (-15, -24, -8), 32: (-23, -24, -14)},
}
ZERO_POINTS = {
    "int8": (-61, 43, -27, 85, -99),
    "uint8": (131, 57, 201, 29, 93),
    "int16": (-8195, 5121, -2051, 16395, -12301),
    "uint16": (20491, 2049, 33001, 4099, 10243),
    "int32": (-1234567891, 1357924681, -2051, 1173741829, -1573741827),
    "uint32": (987654323, 30721, 573741825, 1073741829, 2053),
}


def _scale(plan: Plan, number: int, index: int) -> Scale:
    """Return a scale; they take turns in size, then in sign."""
    at, mantissas = number + index, MANTISSAS[plan.output]
    exponents = EXPONENTS[plan.output][DTYPES[plan.source].width]
    return Scale(mantissas[at % len(mantissas)], exponents[at % 3], 1 - at // 3 % 2 * 2)


def _zero_point(plan: Plan, number: int, index: int) -> int:
    among = ZERO_POINTS[plan.source]
    return 0 if plan.zero_point == "absent" else among[(number // 2 + index) % len(among)]


# -- inputs of each class ----------------------------------------------------------------------


class Candidates(Products):
    """Inputs, all with one scale and one zero point."""

    def __init__(self, x: Sequence[int], scale: Scale, zero_point: int, plan: Plan) -> None:
        """Repeat the parameters."""
        self.count, self.source = len(x), plan.source
        self.x = np.array(x, np.int64)
        self.scale = np.full(self.count, scale.value, plan.output)
        self.zero_point = np.full(self.count, zero_point, np.int64)


KINDS = tuple(name for name in PRODUCTS if name not in ("rounded up", "rounded down"))
BEST = 5  # of the inputs of a class those that are in most others are taken
WIDER = {"float32": 53, "float16": 24}  # bits of an arithmetic that rounds twice


@cache
def _inputs(source: str, output: str, scale: Scale, zero_point: int) -> Mapping[str, list[int]]:
    """Return for each class that can be the inputs that are also in most others."""
    plan, own = Plan((), source, output, "", ""), DTYPES[source]
    differences = {*_small(), *_of_each_length(scale), *_rounded_twice(scale.mantissa, output)}
    tried = {sign * each + zero_point for each in differences for sign in (1, -1)}
    tried |= {own.low, own.low + 1, own.high, *_integers(Draw(zero_point % 2**32), own.high)}
    x = sorted(each for each in tried if own.low <= each <= own.high)
    found = masks(PRODUCTS, Candidates(x, scale, zero_point, plan))
    order = np.argsort(-found.sum(0), kind="stable")
    return {
        name: [x[index] for index in order[row[order]]][:BEST]
        for name, row in zip(PRODUCTS, found, strict=True)
        if row.any()
    }


def _small() -> Iterator[int]:
    """Yield 0, and differences whose products are exact or ties."""
    yield from (odd << shift for odd in (0, 1, 3, 5, 7, 9) for shift in range(5))


def _of_each_length(scale: Scale) -> Iterator[int]:
    """Yield odd differences of each length, up to 33 bits."""
    draw = Draw(scale.mantissa)
    yield from (draw.odd(bits) for bits in range(2, 34) for _ in range(3))


def _integers(draw: Draw, high: int) -> Iterator[int]:
    """Yield inputs wherever the zero point is, with either sign."""
    for bits in range(4, high.bit_length() + 1):
        for odd in (draw.odd(bits), draw.odd(bits)):
            yield from (odd, -odd)


def _rounded_twice(mantissa: int, output: str) -> Iterator[int]:
    """Yield differences whose product a wider arithmetic rounds to a tie, which it is not."""
    kept = FORMATS[output].fraction + 1
    for bits in range(WIDER[output] + 1, min(mantissa.bit_length() + 34, 60)):
        unit = 1 << (bits - kept)  # in the last place
        inverse = pow(mantissa, -1, unit)
        for step in (1, -1):
            first = (unit // 2 + step) * inverse % unit
            lowest = (1 << (bits - 1)) // mantissa
            start = first + max(-(-(lowest - first) // unit), 0) * unit
            yield from range(start, (1 << bits) // mantissa, unit)[:2]


# -- calls -------------------------------------------------------------------------------------


CLAUSE = "DQT-1 DQT-2 DQT-3 DQT-4 DQT-5"
FLAGS = "Rounding Tie SpecialFloat OddScale"
COVERING = {  # by file
    "covering": """
3 4 uint32 float32 one each
5 4 uint16 float32 each absent
11 5 uint8 float32 each each
22 5 uint16 float32 one each
16 6 uint32 float32 each each
24 6 int16 float16 each each
4 6 int32 float16 each absent
21 7 int8 float16 one one
0 2x63 uint32 float32 even absent
17 2x63 int32 float16 last one
28 2x63 uint8 float16 first odd
16 3x23 uint16 float16 last one
17 3x23 uint32 float32 even first
3 9x35 int16 float16 first odd
12 2x2x7 uint32 float32 even last
10 2x2x31 int16 float16 odd absent
13 2x3x5 int32 float32 last last
16 3x2x3 uint16 float16 odd first
7 3x3x33 uint32 float32 one absent
""",
    "covering-ranks-4-to-6": """
13 1x2x1x3 uint32 float32 last first
24 2x2x2x5 int8 float32 odd first
1 2x2x3x3 int32 float16 even absent
12 2x3x2x5 uint32 float16 last last
5 3x2x1x7 uint32 float32 first even
6 2x2x2x2x2 int32 float32 odd one
16 2x2x2x2x9 uint32 float32 last absent
11 2x2x2x3x5 int16 float16 first absent
29 2x3x2x2x7 uint32 float16 last each
0 3x2x2x2x3 int32 float16 one each
7 2x1x2x1x2x3 int16 float32 last first
29 2x2x2x2x2x2 uint32 float16 last absent
8 2x2x2x2x2x2 uint32 float32 odd last
12 2x2x3x2x2x2 uint32 float32 last absent
12 2x3x2x3x2x2 uint16 float16 odd first
""",
    "covering-ranks-7-and-8": """
13 2x2x2x2x2x2x2 uint32 float32 first one
23 2x2x2x2x2x2x2 int16 float16 first first
3 2x2x2x2x2x2x2 uint32 float16 last one
25 2x3x2x3x2x2x2 int32 float32 even first
29 2x2x2x1x1x2x2x3 int16 float32 last one
13 2x2x2x2x2x2x2x2 uint32 float32 even absent
13 2x2x2x2x2x2x2x2 uint8 float32 last each
27 2x2x2x2x2x2x2x2 uint32 float32 first absent
9 2x2x2x2x2x2x2x2 uint32 float16 first absent
12 2x2x2x3x2x2x2x2 uint32 float16 even odd
""",
}


def _add(topic: ElementWiseTopic, name: str, line: str) -> None:
    first, _, text = line.partition(" ")
    number, plan = int(first), Plan.of(text)
    scale_sizes = parameter_sizes(plan.scale, plan.sizes)
    scales = [_scale(plan, number, index) for index in range(prod(scale_sizes))]
    zero, points = None, [0] * plan.count
    if plan.zero_point != "absent":
        sizes = parameter_sizes(plan.zero_point, plan.sizes)
        own = [_zero_point(plan, number, index) for index in range(prod(sizes))]
        zero = ints(plan.source, sizes, own)
        points = [own[place] for place in places(sizes, plan.sizes)]
    draw, x = Draw(number), list[int]()
    for index, place in enumerate(places(scale_sizes, plan.sizes)):
        among = _inputs(plan.source, plan.output, scales[place], points[index])
        x.append(_of_kind(among, 7 * number + plan.count - 1 - index, draw))
    given = (
        ints(plan.source, plan.sizes, x),
        floats(plan.output, scale_sizes, (each.value for each in scales)),
    )
    topic.add(name, plan.about, CLAUSE, plan.output, FLAGS, *given, zero)


def _of_kind(among: Mapping[str, list[int]], turn: int, draw: Draw) -> int:
    """Return an input of the kind whose turn it is, or of the next that there is."""
    turns = (KINDS[(turn + step) % len(KINDS)] for step in range(len(KINDS)))
    found = next(among[name] for name in turns if name in among)
    return found[draw.below(len(found))]


def _add_all(lines: str, topic: ElementWiseTopic) -> None:
    for number, line in enumerate(lines.split("\n")[1:-1], 1):
        _add(topic, f"{topic.topic}-{number}", line)


for _name, _lines in COVERING.items():
    topics.file(_name)(partial(_add_all, _lines))
