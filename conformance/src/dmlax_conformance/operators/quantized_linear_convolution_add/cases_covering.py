"""Quantized convolution with an addend: every class of the sum at every structure, in few calls.

The image is constant and the weights of each filter have one sum, so that the convolution's result
is one number; the addend makes the sums of each class.
"""

from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

from ...format.recipe import Cycle, Recipe
from ...format.tensors import from_recipe
from .._shared.binary_covering import OTHER, SUMS, sums
from .._shared.convolution_cases import output
from .._shared.convolution_covering import Plan
from .._shared.near_ties import float32
from .._shared.pooling_cases import spread
from .._shared.rounding import RANGES
from ..topics import Files, ints
from .cases import OPERATOR, Added, AddTopic

topics = Files(OPERATOR, AddTopic)
MIDDLES = {"uint8": 129, "int8": 3}
LINES = """
1x3x1x83 2x3x1x1 uint8 uint8 one each + nozb
1x3x1x79 1x3x1x1 int8 int8 absent one + nobias
1x3x83x1 2x3x1x1 uint8 int8 one one + int8
1x3x69x2 1x3x1x1 int8 uint8 one absent + int8 nobias
1x3x67 2x3x1 uint8 int8 one each +
2x3x71 1x3x1 int8 int8 one one + int8 nobias
1x3x1x1 151x3x1x1 uint8 uint8 one each +
1x3x1 151x3x1 int8 int8 one one + int8 nobias
7x3x1x5 2x3x1x1 uint8 int8 one one +
6x3x2x7 1x3x1x1 int8 uint8 absent each + int8
1x18x1x7 12x3x1x1 int8 int8 one each + groups=6 int8
2x6x1x15 6x1x1x1 uint8 uint8 one one + groups=6 nobias
1x6x3x9 6x1x2x2 int8 uint8 absent absent + groups=6 int8
1x4x5x29 2x4x2x2 uint8 int8 one one + strides=2,1 start=1,0 end=0,1 nozb
1x4x9x19 2x4x2x3 int8 int8 one each + dilations=2,2 start=1,1 int8
1x4x9x41 1x4x3x3 uint8 uint8 absent absent + strides=1,2 dilations=1,2 int8
1x3x37x3 2x3x1x1 uint8 uint8 one one + nozs int8
1x5x1x3 139x5x1x1 int8 uint8 one one + nozs int8
1x3x81x1 1x3x1x1 uint8 uint8 one one +
"""


def _convolution(plan: Plan, number: int, result: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return operands and parameters of a convolution whose every result is the same."""
    (xl, xh), (wl, wh) = (RANGES[dtype] for dtype in plan.types)
    zx = 0 if plan.points[0] == "absent" else (xl + xh) // 2
    middle, filters = (wl + wh) // 2, plan.filters[0]
    zw = {"absent": [0], "one": [middle], "each": [middle + k % 5 for k in range(filters)]}
    points = [zw[plan.points[1]][k % len(zw[plan.points[1]])] for k in range(filters)]
    bias = None if "nobias" in plan.words else [k % 5 - 2 for k in range(filters)]
    count, words = prod(plan.filters[1:]), list[int]()
    for k, point in enumerate(points):
        total = OTHER - (bias[k] if bias else 0)
        words += [w + point for w in spread(total, count, wl - point, wh - point, 9 * number + k)]
    x = from_recipe(plan.types[0], plan.image, Recipe(0, zx + 1, zx + 1))
    own = {"zx": None if plan.points[0] == "absent" else [zx], "bias": bias}
    own["zw"] = None if plan.points[1] == "absent" else zw[plan.points[1]]
    return (
        x,
        ints(plan.types[1], plan.filters, words),
        {**own, "sx": [1], "sw": [result], "sy": [result]},
    )


def _covering(name: str, topic: AddTopic) -> None:
    """Add a call of a family of sums for each line."""
    for number, line in enumerate(LINES.strip().splitlines(), 1):
        plan, family = Plan.of(line), sums(name)(number, 0)
        changing, scale, whole = (2 * each for each in family.scales)  # that of the sum not 1
        x, w, own = _convolution(plan, number, scale)
        dtype, addend = ("int8", "uint8") if "int8" in plan.words else ("uint8", "int8")
        addend = dtype if number % 3 == 0 else addend
        result = plan.types[number % 2]
        own["zy"] = [MIDDLES[result] - 2]
        zb = None if "nozb" in plan.words else {"uint8": 128, "int8": -1}[addend]
        zb = 128 if addend == "uint8" else zb
        zs = None if "nozs" in plan.words and dtype == "int8" else MIDDLES[dtype]
        (asked,) = output(x, w, plan.options, result).values()
        turn, (low, high) = 7 * number % len(family.values), RANGES[addend]
        held = [*family.values[turn:], *family.values[:turn]]
        words = tuple(min(max(value + (zb or 0), low), high) for value in held)
        made = from_recipe(addend, asked.sizes, Cycle(words))
        factors = [float32(Fraction(each)) for each in (changing, whole)]
        added = Added.of(made, factors, (zb, zs), dtype)
        clause = topic.clauses("1 3 4 7 8 9 15 16 17 18 19 20 23 24")
        flags, about = "Tie NearTieFloat64 Saturation BlockEdge", f"{name} sums; {plan.about}"
        label = f"covering-{name}-{number}"
        topic.add(label, about, clause, x, w, own, flags, plan.options, result, added=added)


for _name in SUMS:
    topics.file(f"covering-{_name}")(partial(_covering, _name))
