"""QUANTIZED_LINEAR_CONVOLUTION: the last step, reached through the bias.

Input equal to its zero point makes every product 0, so the accumulator of a channel is its bias.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import islice

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared import near_ties
from .._shared.floats import round_half_even
from .._shared.near_ties import Draw, NearTie
from .._shared.window_cases import SIDES, scale_words, scales
from ..topics import Files, Topic, ints
from .cases import OPERATOR, add, operands

topics = Files(OPERATOR, Topic)

Scale = float | Fraction
TOP, BOTTOM = 2**31 - 1, -(2**31)


def through_bias(
    bias: Sequence[int],
    sx: Scale = 1,
    sw: Sequence[Scale] = (1,),
    sy: Scale = 1,
    zy: int | None = None,
    dtype: str = "int8",
    source: str = "uint8",
) -> dict[str, Tensor]:
    """Return a call whose accumulators are exactly these."""
    x = ints(source, (1, 1, 1, 1), [77])
    w = ints("int8", (len(bias), 1, 1, 1), [1] * len(bias))
    point = None if zy is None else [zy]
    given = operands(x, w, [77], None, bias, point, dtype)
    return {
        **given,
        "InputScaleTensor": scales([sx]),
        "FilterScaleTensor": scales(sw),
        "OutputScaleTensor": scales([sy]),
    }


@topics.file("rounding")
def _rounding(topic: Topic) -> None:
    halves = [-9, -7, -5, -3, -1, 1, 3, 5, 7, 9]
    for dtype, points in {"int8": (0, 1, -2, -3), "uint8": (10, 11)}.items():
        for zy in points:
            given = through_bias(halves, sy=2, zy=zy, dtype=dtype)
            name = f"ties-{dtype}-zero-point-{zy}".replace("--", "-minus-")
            text = f"halves of both signs, then zero point {zy}"
            add(topic, name, text, "QLC-5", given, None, dtype, "Tie")
    given = through_bias(range(-8, 9), sy=4, zy=1)
    text = "quarters of both signs: only a half is a tie"
    add(topic, "quarters", text, "QLC-5", given, None, "int8", "Tie")
    _saturation(topic)


def _saturation(topic: Topic) -> None:
    for dtype, (low, high) in SIDES.items():
        for zy in (low, high, (low + high + 1) // 2):
            ends = [2 * (end - zy) + step for end in (low, high) for step in (-3, -1, 0, 1, 3)]
            given = through_bias([*ends, TOP, BOTTOM], sy=2, zy=zy, dtype=dtype)
            name = f"saturation-{dtype}-zero-point-{zy}".replace("--", "-minus-")
            text = f"half steps around both ends of {dtype} with zero point {zy}"
            add(topic, name, text, "QLC-6 QLC-5", given, None, dtype, "Saturation Tie")


FAMILIES = {  # how floats round them, and the flag
    "float32": (near_ties.float32_rounds, "NearTieFloat32"),
    "float64": (near_ties.float64_rounds, "NearTieFloat64"),
    "exact": (near_ties.float32_rounds, "Tie"),
}
ONE_TYPE = {"uint8": 127, "int8": -1}  # and the zero point; the filter is int8


@topics.file("near-ties")
def _near_ties(topic: Topic) -> None:
    for number in range(1, 4):
        for name in FAMILIES:
            _family(topic, name, number)


@topics.file("near-ties-of-one-type")
def _near_ties_of_one_type(topic: Topic) -> None:
    """Give input and output one data type, as other libraries want it."""
    for number, (dtype, zy) in enumerate(ONE_TYPE.items(), 4):
        for name in FAMILIES:
            _family(topic, name, number, dtype, zy, dtype)


def _family(
    topic: Topic,
    name: str,
    number: int,
    dtype: str = "int8",
    zy: int | None = None,
    source: str = "uint8",
) -> None:
    """Add a vector whose first channels are members that float arithmetic gets wrong."""
    rounds, flag = FAMILIES[name]
    chosen = _chosen(name, 40 + number, rounds)
    first = chosen[0]
    point = (0 if number == 1 else number - 4) if zy is None else zy
    given = through_bias([tie.accumulator for tie in chosen], zy=point, dtype=dtype, source=source)
    given["InputScaleTensor"] = scale_words([first.input_scale])
    given["FilterScaleTensor"] = scale_words([tie.filter_scale for tie in chosen])
    given["OutputScaleTensor"] = scale_words([first.output_scale])
    label = "exact-ties" if name == "exact" else f"near-ties-{name}"
    text = f"{len(chosen)} accumulators on or beside k + 1/2; floats misplace the first ones"
    last, flags = (number if zy is None else f"{source}-{dtype}"), f"{flag} LargeAccumulator"
    add(topic, f"{label}-{last}", text, "QLC-1 QLC-5", given, None, dtype, flags)


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


@topics.file("scales")
def _scales(topic: Topic) -> None:
    values = VALUES
    negative = {
        "input": through_bias(values, -0.5, sy=4, zy=3),
        "filter": through_bias(values, 0.5, [(-1) ** c * 0.7 for c in range(11)], 4, 3),
        "output": through_bias(values, 0.5, sy=-4, zy=3),
        "all": through_bias(values, -0.5, [-0.7], -4, 3),
    }
    for name, given in negative.items():
        text = f"negative scale: {name}"
        add(topic, f"negative-{name}-scale", text, "QLC-13", given, None, "int8", "OddScale")
    for name, (text, words) in EXTREME_SCALES.items():
        given = through_bias(values, zy=-7)
        given |= {field: scale_words([word]) for field, word in zip(SCALES, words, strict=True)}
        add(topic, name, text, "QLC-13 QLC-6", given, None, "int8", "OddScale")
    _large_accumulators(topic)


@topics.file("scales-of-one-type")
def _scales_of_one_type(topic: Topic) -> None:
    for dtype, zy in ONE_TYPE.items():
        own = {"zy": zy, "dtype": dtype, "source": dtype}
        signs = [(-1) ** c * 0.7 for c in range(len(VALUES))]
        given = through_bias(VALUES, 0.5, signs, 4, **own)  # type: ignore[arg-type]
        text = f"negative scale: filter; {dtype} to {dtype}"
        name = f"negative-filter-scale-{dtype}-{dtype}"
        add(topic, name, text, "QLC-13", given, None, dtype, "OddScale")
        for name in OF_ONE_TYPE:
            text, words = EXTREME_SCALES[name]
            given = through_bias(VALUES, **own)  # type: ignore[arg-type]
            given |= {field: scale_words([word]) for field, word in zip(SCALES, words, strict=True)}
            text, flags = f"{text}; {dtype} to {dtype}", "OddScale"
            add(topic, f"{name}-{dtype}-{dtype}", text, "QLC-13 QLC-6", given, None, dtype, flags)
        _large_accumulators(topic, f"-{dtype}-{dtype}", **own)  # type: ignore[arg-type]


VALUES = [-900, -301, -2, -1, 0, 1, 2, 301, 900, TOP, BOTTOM]
SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
OF_ONE_TYPE = (
    *("subnormal-pair", "product-underflows", "product-overflows", "all-huge", "all-tiny"),
    "quotient-near-one",
)
EXTREME_SCALES = {
    "subnormal-pair": ("input and output scale are the same subnormal", (3, 0x3F000000, 3)),
    "subnormal-filter": ("a subnormal filter scale", (0x7F000000, 0x00400001, 0x3F800000)),
    "smallest-output": ("the smallest output scale", (0x00000007, 0x3F000000, 0x00000001)),
    "product-underflows": ("float32 input * filter is 0", (0x1A000000, 0x19800000, 0x00000001)),
    "product-overflows": (
        "float32 input * filter is infinite",
        (0x60000000, 0x60000000, 0x7F7FFFFF),
    ),
    "all-huge": ("the largest scales", (0x7F7FFFFF, 0x7F7FFFFF, 0x7F7FFFFF)),
    "all-tiny": ("the smallest scales", (1, 1, 1)),
    "everything-saturates": ("the largest over the smallest", (0x7F7FFFFF, 0x7F7FFFFF, 1)),
    "everything-vanishes": ("the smallest over the largest", (1, 1, 0x7F7FFFFF)),
    "quotient-near-one": (
        "the scales cancel but for one bit",
        (0x3F800001, 0x3F000000, 0x3F000000),
    ),
}


def _large_accumulators(
    topic: Topic,
    suffix: str = "",
    zy: int | None = None,
    dtype: str = "int8",
    source: str = "uint8",
) -> None:
    bias = [2**24 + 1, -(2**24) - 1, 2**25 + 3, 2**30 + 1, TOP, BOTTOM, BOTTOM + 1, 2**24 + 3]
    sw = [Fraction(5, 2 * abs(value) + (-1) ** index) for index, value in enumerate(bias)]
    given = through_bias(bias, sw=sw, zy=zy, dtype=dtype, source=source)
    text, flags = "accumulators that float32 rounds, near 5/2", "LargeAccumulator"
    add(topic, f"beyond-24-bits{suffix}", text, "QLC-1", given, None, dtype, flags)
    two = Fraction(2)
    bias, sw = [2**24 + 1, -(2**24) - 1, 2**31 - 1], [two**-25, two**-25, two**-25]
    given = through_bias(bias, sw=sw, zy=zy, dtype=dtype, source=source)
    text = "float32(accumulator) would make a tie or a whole number of these"
    add(topic, f"lost-bit-decides{suffix}", text, "QLC-1", given, None, dtype, flags)


@topics.file("overflow")
def _overflow(topic: Topic) -> None:
    x, w = ints("uint8", (1, 1, 1, 2), [1, 255]), ints("int8", (2, 1, 1, 1), [1, -1])
    given = operands(x, w, [0], None, [TOP, BOTTOM], [0], "int8", sx=[1], sw=[2.0**-25], sy=[1])
    text = "the bias takes the sum past both ends of 32 bits"
    flags, need = "Overflow Extreme", "overflow:wrap"
    add(topic, "bias-wraps", text, "QLC-12", given, None, "int8", flags, need)
    given = operands(x, w, [0], None, [TOP - 255, BOTTOM + 255], [0], "int8", [1], [2.0**-25], [1])
    text = "the bias takes the sum exactly to the ends, so nothing wraps"
    add(topic, "bias-reaches-the-end", text, "QLC-2 QLC-4", given, None, "int8", "Extreme")
    channels = 33_100
    x = from_recipe("uint8", (1, channels, 1, 1), Recipe(0, 255, 255))
    w = from_recipe("uint8", (1, channels, 1, 1), Recipe(0, 255, 255))
    given = operands(x, w, [0], None, None, [0], "int8", sx=[1], sw=[2.0**-25], sy=[1])
    text = "33,100 products of 255 * 255 leave 32 bits"
    add(topic, "products-wrap", text, "QLC-12", given, None, "int8", f"{flags} Large", need)
