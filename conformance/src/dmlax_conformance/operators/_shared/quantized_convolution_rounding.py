"""Calls of a quantized convolution about its last step, reached through the bias.

Input equal to its zero point makes every product 0, so the accumulator of a channel is its bias.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import islice, product

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from ..topics import ints
from . import near_ties
from .convolution_cases import Parameters, scale_words
from .floats import round_half_even
from .near_ties import Draw, NearTie
from .quantized_convolution_cases import QuantizedTopic
from .rounding import RANGES

TOP, BOTTOM = 2**31 - 1, -(2**31)


def add_rounding(topic: QuantizedTopic) -> None:
    """Fill the file of ties and of the ends of ranges."""
    halves = [-9, -7, -5, -3, -1, 1, 3, 5, 7, 9]
    for dtype, zy in (*product(["int8"], (0, 1, -2, -3)), *product(["uint8"], (10, 11))):
        name = f"ties-{dtype}-zero-point-{zy}".replace("--", "-minus-")
        text = f"halves of both signs, then zero point {zy}"
        topic.through_bias(
            name, text, topic.clauses("5"), halves, {"sy": [2], "zy": [zy]}, "Tie", dtype
        )
    own, text = {"sy": [4], "zy": [1]}, "quarters of both signs: only a half is a tie"
    topic.through_bias("quarters", text, topic.clauses("5"), range(-8, 9), own, "Tie")
    for dtype, (low, high) in RANGES.items():
        for zy in (low, high, (low + high + 1) // 2):
            ends = [2 * (end - zy) + step for end in (low, high) for step in (-3, -1, 0, 1, 3)]
            name = f"saturation-{dtype}-zero-point-{zy}".replace("--", "-minus-")
            text = f"half steps around both ends of {dtype} with zero point {zy}"
            own, bias, flags = {"sy": [2], "zy": [zy]}, [*ends, TOP, BOTTOM], "Saturation Tie"
            topic.through_bias(name, text, topic.clauses("6 5"), bias, own, flags, dtype)


FAMILIES = {  # how floats round them, and the flag
    "float32": (near_ties.float32_rounds, "NearTieFloat32"),
    "float64": (near_ties.float64_rounds, "NearTieFloat64"),
    "exact": (near_ties.float32_rounds, "Tie"),
}
ONE_TYPE = {"uint8": 127, "int8": -1}  # and the zero point; the filter is int8


def add_near_ties(topic: QuantizedTopic) -> None:
    """Fill the file of near ties."""
    for number, name in product((1, 2, 3), FAMILIES):
        _add_family(topic, name, number, str(number), number - 4 if number > 1 else 0)


def add_near_ties_of_one_type(topic: QuantizedTopic) -> None:
    """Give input and output one data type, as other libraries want it."""
    for number, (dtype, zy) in enumerate(ONE_TYPE.items(), 4):
        for name in FAMILIES:
            _add_family(topic, name, number, f"{dtype}-{dtype}", zy, dtype, dtype)


def _add_family(
    topic: QuantizedTopic, name: str, number: int, end: str, zy: int, *types: str
) -> None:
    """Add a vector whose first channels are members that float arithmetic gets wrong."""
    rounds, flag = FAMILIES[name]
    chosen = _chosen(name, 40 + number, rounds)
    bias, (_, sx, _, sy) = [tie.accumulator for tie in chosen], chosen[0]
    own = {"sx": scale_words([sx]), "sy": scale_words([sy]), "zy": [zy]}
    own["sw"] = scale_words([tie.filter_scale for tie in chosen])
    label = "exact-ties" if name == "exact" else f"near-ties-{name}"
    text = f"{len(chosen)} accumulators on or beside k + 1/2; floats misplace the first ones"
    flags = f"{flag} LargeAccumulator"
    topic.through_bias(f"{label}-{end}", text, topic.clauses("1 5"), bias, own, flags, *types)


def _chosen(name: str, seed: int, rounds: Callable[[NearTie], int]) -> list[NearTie]:
    """Return members with common scales, at least five of them misplaced by floats."""
    draw = Draw(seed)
    while True:
        found = near_ties.channels(name, near_ties.shared_scales(name, draw), seed)
        members = [tie for tie in islice(found, 300) if abs(tie.quotient) < 124]
        wrong = [tie for tie in members if rounds(tie) != round_half_even(tie.quotient)]
        if len(wrong) >= 5:
            right = [tie for tie in members if tie not in wrong]
            return wrong[:18] + right[:6]


VALUES = [-900, -301, -2, -1, 0, 1, 2, 301, 900, TOP, BOTTOM]
SIGNS = [(-1) ** c * 0.7 for c in range(len(VALUES))]
NEGATIVE: dict[str, Parameters] = {
    "input": {"sx": [-0.5], "sy": [4]},
    "filter": {"sx": [0.5], "sw": SIGNS, "sy": [4]},
    "output": {"sx": [0.5], "sy": [-4]},
    "all": {"sx": [-0.5], "sw": [-0.7], "sy": [-4]},
}
HUGE, HALF = 0x7F7FFFFF, 0x3F000000
EXTREME = {  # of input, filter and output
    "subnormal-pair": ("input and output scale are the same subnormal", (3, HALF, 3)),
    "subnormal-filter": ("a subnormal filter scale", (0x7F000000, 0x00400001, 0x3F800000)),
    "smallest-output": ("the smallest output scale", (7, HALF, 1)),
    "product-underflows": ("float32 input * filter is 0", (0x1A000000, 0x19800000, 1)),
    "product-overflows": ("float32 input * filter is infinite", (0x60000000, 0x60000000, HUGE)),
    "all-huge": ("the largest scales", (HUGE, HUGE, HUGE)),
    "all-tiny": ("the smallest scales", (1, 1, 1)),
    "everything-saturates": ("the largest over the smallest", (HUGE, HUGE, 1)),
    "everything-vanishes": ("the smallest over the largest", (1, 1, HUGE)),
    "quotient-near-one": ("the scales cancel but for one bit", (0x3F800001, HALF, HALF)),
}
ELSEWHERE = ("subnormal-filter", "smallest-output", "everything-saturates", "everything-vanishes")


def add_scales(topic: QuantizedTopic) -> None:
    """Fill the file of odd scales."""
    for name, scales in NEGATIVE.items():
        label, text = f"negative-{name}-scale", f"negative scale: {name}"
        topic.through_bias(
            label, text, topic.clauses("13"), VALUES, {**scales, "zy": [3]}, "OddScale"
        )
    for name in EXTREME:
        _add_extreme(topic, name, -7)
    _add_large_accumulators(topic, None)


def add_scales_of_one_type(topic: QuantizedTopic) -> None:
    """Fill the file of odd scales of one data type."""
    for dtype, zy in ONE_TYPE.items():
        text = f"negative scale: filter; {dtype} to {dtype}"
        name, own = f"negative-filter-scale-{dtype}-{dtype}", {**NEGATIVE["filter"], "zy": [zy]}
        topic.through_bias(name, text, topic.clauses("13"), VALUES, own, "OddScale", dtype, dtype)
        for name in EXTREME:
            if name not in ELSEWHERE:
                _add_extreme(topic, name, zy, dtype, dtype)
        _add_large_accumulators(topic, [zy], dtype, dtype)


def _add_extreme(topic: QuantizedTopic, name: str, zy: int, *types: str) -> None:
    text, words = EXTREME[name]
    sx, sw, sy = (scale_words([word]) for word in words)
    if types:
        name, text = "-".join((name, *types)), f"{text}; {' to '.join(types)}"
    own = {"sx": sx, "sw": sw, "sy": sy, "zy": [zy]}
    topic.through_bias(name, text, topic.clauses("13 6"), VALUES, own, "OddScale", *types)


def _add_large_accumulators(topic: QuantizedTopic, zy: list[int] | None, *types: str) -> None:
    bias = [2**24 + 1, -(2**24) - 1, 2**25 + 3, 2**30 + 1, TOP, BOTTOM, BOTTOM + 1, 2**24 + 3]
    sw = [Fraction(5, 2 * abs(value) + (-1) ** index) for index, value in enumerate(bias)]
    name, flags = "-".join(("beyond-24-bits", *types)), "LargeAccumulator"
    text, own = "accumulators that float32 rounds, near 5/2", {"sw": sw, "zy": zy}
    topic.through_bias(name, text, topic.clauses("1"), bias, own, flags, *types)
    bias, name = [2**24 + 1, -(2**24) - 1, TOP], "-".join(("lost-bit-decides", *types))
    text = "float32(accumulator) would make a tie or a whole number of these"
    topic.through_bias(
        name, text, topic.clauses("1"), bias, {"sw": [2.0**-25] * 3, "zy": zy}, flags, *types
    )


def add_overflow(topic: QuantizedTopic) -> None:
    """Fill the file of sums that leave 32 bits."""
    x, w = ints("uint8", (1, 1, 1, 2), [1, 255]), ints("int8", (2, 1, 1, 1), [1, -1])
    own: dict[str, list[float]] = {"zx": [0], "zy": [0], "sx": [1], "sw": [2.0**-25]}
    flags, need = "Overflow Extreme", "overflow:wrap"
    text, past = "the bias takes the sum past both ends of 32 bits", {**own, "bias": [TOP, BOTTOM]}
    topic.add("bias-wraps", text, topic.clauses("12"), x, w, past, flags, None, "int8", need)
    text = "the bias takes the sum exactly to the ends, so nothing wraps"
    name, ends = "bias-reaches-the-end", {**own, "bias": [TOP - 255, BOTTOM + 255]}
    topic.add(name, text, topic.clauses("2 4"), x, w, ends, "Extreme", None, "int8")
    x = from_recipe("uint8", (1, 33_100, 1, 1), Recipe(0, 255, 255))
    text, flags = "33,100 products of 255 * 255 leave 32 bits", f"{flags} Large"
    topic.add("products-wrap", text, topic.clauses("12"), x, x, own, flags, None, "int8", need)
