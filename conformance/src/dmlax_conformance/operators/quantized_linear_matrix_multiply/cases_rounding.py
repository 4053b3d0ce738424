"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: ties, near ties, saturation, scales and biases."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import cycle, islice, product
from math import prod

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from .._shared import near_ties
from .._shared.convolution_cases import NONE, Parameters
from .._shared.matmul import shape_of
from .._shared.matmul_cases import beside, operand, sums_of
from .._shared.near_ties import Draw
from .._shared.rounding import RANGES
from ..topics import Files, bits, ints
from .cases import OPERATOR, QuantizedTopic

TOP, BOTTOM = 2**31 - 1, -(2**31)
LARGEST = 2**31 - 2**24  # of an accumulator, so that a bias makes it of any sum here

ONES: Parameters = {"sa": [1], "sb": [1], "sy": [1]}


class BiasTopic(QuantizedTopic):
    """One file of calls whose biases make the accumulators that are wanted."""

    scales = ONES
    number = 0

    def through(
        self,
        name: str,
        comment: str,
        clause: str,
        wanted: Sequence[int],
        own: Parameters = NONE,
        flags: str = "",
        dtype: str = "int8",
        sizes: tuple[tuple[int, ...], tuple[int, ...]] | None = None,
    ) -> None:
        """Add a call with the wanted accumulators over and over, of other sizes each time."""
        self.number += 1
        a_sizes, b_sizes = sizes or beside(self.number, len(wanted))
        a, b = operand("uint8", a_sizes, 800 + self.number), operand("int8", b_sizes, 801)
        output = shape_of(a_sizes, b_sizes).output
        turned = _by_rows(wanted, output) if a_sizes[-2:-1] == (len(wanted),) else cycle(wanted)
        sums = zip(islice(turned, prod(output)), sums_of(a, b), strict=True)
        bias = ints("int32", output, [each - total for each, total in sums])
        self.add(name, comment, clause, a, b, {**own, "bias": bias}, flags, dtype)


def _by_rows(wanted: Sequence[int], output: tuple[int, ...]) -> list[int]:
    """Return each accumulator for a whole row of the output."""
    width = prod(output) // len(wanted)
    return [each for each in wanted for _ in range(width)]


topics = Files(OPERATOR, BiasTopic)


@topics.file("rounding")
def _rounding(topic: BiasTopic) -> None:
    halves = [-9, -7, -5, -3, -1, 1, 3, 5, 7, 9]
    points = (*product(["int8"], (0, 1, -2, -3)), *product(["uint8"], (10, 11)))
    for dtype, zy in points:
        name = f"ties-{dtype}-zero-point-{zy}".replace("--", "-minus-", 1)
        text = f"halves of both signs, then zero point {zy}"
        topic.through(name, text, "QMM-5", halves, {"sy": [2], "zy": [zy]}, "Tie", dtype)
    text = "quarters of both signs: only a half is a tie"
    for number in (1, 2):
        own = {"sy": [4], "zy": [number]}
        topic.through(f"quarters-{number}", text, "QMM-5", range(-8, 9), own, "Tie")
    for dtype, (low, high) in RANGES.items():
        for zy in (low, high, (low + high + 1) // 2):
            ends = [2 * (end - zy) + step for end in (low, high) for step in (-3, -1, 0, 1, 3)]
            name = f"saturation-{dtype}-zero-point-{zy}".replace("--", "-minus-")
            text = f"half steps around both ends of {dtype} with zero point {zy}"
            wanted, own = [*ends, LARGEST, -LARGEST], {"sy": [2], "zy": [zy]}
            topic.through(name, text, "QMM-6 QMM-5", wanted, own, "Saturation Tie", dtype)
    own = {"sy": [2, 4, 8], "zy": [1, -2, 3]}
    text = "ties of each row's own output scale, then its own zero point"
    for name, wanted in {"odd": [1, 2, 4], "minus": [-3, -6, -12], "five": [5, 10, 20]}.items():
        sizes = (3, 9), (9, 2)
        topic.through(f"ties-of-rows-{name}", text, "QMM-5 QMM-7", wanted, own, "Tie", sizes=sizes)


@topics.file("near-ties")
def _near_ties(topic: BiasTopic) -> None:
    """Add accumulators and scales whose quotient float64 takes for a tie."""
    for number in range(4):
        scales = near_ties.shared_scales("float64", Draw(40 + number))
        found = islice(near_ties.channels("float64", scales, 40 + number), 60)
        ties = [t for t in found if abs(t.quotient) < 100 and abs(t.accumulator) < LARGEST][:12]
        words = [tie.filter_scale for tie in ties]
        own = {
            "sa": bits("float32", (), scales[:1]),
            "sb": bits("float32", (len(words),), words),
            "sy": bits("float32", (), scales[1:]),
        }
        name, text = f"near-ties-float64-{number}", "hardly beside k + 1/2"
        wanted, flags = [tie.accumulator for tie in ties], "NearTieFloat64 LargeAccumulator"
        sizes = (1 + number, 3), (3, len(ties))
        topic.through(name, text, "QMM-1 QMM-5", wanted, own, flags, sizes=sizes)


VALUES = [-900, -301, -2, -1, 0, 1, 2, 301, 900, LARGEST, -LARGEST]
SIGNS = [(-1) ** c * 0.7 for c in range(len(VALUES))]
NEGATIVE: dict[str, Parameters] = {
    "a": {"sa": [-0.5], "sy": [4]},
    "b": {"sa": [0.5], "sb": SIGNS, "sy": [4]},
    "output": {"sa": [0.5], "sy": [-4]},
    "all": {"sa": [-0.5], "sb": [-0.7], "sy": [-4]},
}
HUGE, HALF = 0x7F7FFFFF, 0x3F000000
EXTREME = {  # of A, B and output
    "subnormal-pair": ("scales of A and output are the same subnormal", (3, HALF, 3)),
    "subnormal-b": ("a subnormal scale of B", (0x7F000000, 0x00400001, 0x3F800000)),
    "smallest-output": ("the smallest output scale", (7, HALF, 1)),
    "product-underflows": ("float32 A * B is 0", (0x1A000000, 0x19800000, 1)),
    "product-overflows": ("float32 A * B is infinite", (0x60000000, 0x60000000, HUGE)),
    "all-huge": ("the largest scales", (HUGE, HUGE, HUGE)),
    "all-tiny": ("the smallest scales", (1, 1, 1)),
    "everything-saturates": ("the largest over the smallest", (HUGE, HUGE, 1)),
    "everything-vanishes": ("the smallest over the largest", (1, 1, HUGE)),
    "quotient-near-one": ("the scales cancel but for one bit", (0x3F800001, HALF, HALF)),
}


@topics.file("scales")
def _scales(topic: BiasTopic) -> None:
    for name, own in NEGATIVE.items():
        label, text = f"negative-{name}-scale", f"negative scale: {name}"
        sizes = ((2, 9), (9, len(VALUES))) if name == "b" else None
        own = {**own, "zy": [3]}
        topic.through(label, text, "QMM-12", VALUES, own, "OddScale", sizes=sizes)
    signs = {"sa": SIGNS, "sy": [4 * (-1) ** (c // 2) for c in range(len(VALUES))]}
    text, sizes = "negative scales of rows of A and of the output", ((len(VALUES), 4), (4, 3))
    topic.through("negative-rows", text, "QMM-12 QMM-7", VALUES, signs, "OddScale", sizes=sizes)
    for name, (text, words) in EXTREME.items():
        sa, sb, sy = (bits("float32", (), [word]) for word in words)
        own = {"sa": sa, "sb": sb, "sy": sy, "zy": [-7]}
        topic.through(name, text, "QMM-12 QMM-6", VALUES, own, "OddScale")
    large = [2**24 + 1, -(2**24) - 1, 2**25 + 3, 2**30 + 1, LARGEST, -LARGEST, 2**24 + 3]
    quotients = [Fraction(5, 2 * abs(value) + (-1) ** index) for index, value in enumerate(large)]
    text, flags = "accumulators that float32 rounds, near 5/2", "LargeAccumulator"
    for m, k in ((1, 1), (3, 8), (2, 31)):
        name, sizes = f"beyond-24-bits-{m}-{k}", ((m, k), (k, len(large)))
        topic.through(name, text, "QMM-1", large, {"sb": quotients}, flags, sizes=sizes)
    text = "float32(accumulator) would make a tie or a whole number of these"
    for number in (1, 2, 3):
        wanted = [2**24 + 1, -(2**24) - 1, 2**25 + 2**24 + 1, LARGEST]
        own = {"sb": [2.0**-25], "zy": [number]}
        topic.through(f"lost-bit-decides-{number}", text, "QMM-1 QMM-9", wanted, own, flags)


@topics.file("bias")
def _bias(topic: BiasTopic) -> None:
    text = "sum and bias leave 32 bits together, and do not wrap"
    for number, (m, k, n) in enumerate(((1, 1, 4), (3, 8, 4), (2, 17, 4), (1, 64, 4))):
        a, b = operand("uint8", (m, k), 820 + number), operand("uint8", (k, n), 830 + number)
        own = {"bias": [TOP, TOP - 9, BOTTOM, BOTTOM + 9], "sb": [2.0**-25], "zy": [number]}
        clause, flags = "QMM-9", "LargeAccumulator Extreme"
        topic.add(f"beyond-32-bits-{m}-{k}", text, clause, a, b, own, flags)
        own = {**own, "za": [255], "zy": None}
        topic.add(f"below-32-bits-{m}-{k}", f"{text}; sums below 0", clause, a, b, own, flags)
    a, b = operand("uint8", (3, 9), 840), operand("int8", (9, 4), 841)
    bias = [17 - total for total in sums_of(a, b)]
    own = {"bias": ints("int32", (3, 4), [each + place for place, each in enumerate(bias)])}
    text = "the bias leaves 17 and more of each sum, so that each of its bits shows"
    topic.add("shows-each-bit", text, "QMM-9 QMM-2", a, b, own)
    text, own = "every element of A is its zero point, so that the bias is the sum", {"za": [7]}
    a = ints("uint8", (2, 5), [7] * 10)
    own = {**own, "bias": ints("int32", (2, 3), [5, -5, 99, 0, 1, -128])}
    topic.add("alone", text, "QMM-9", a, operand("int8", (5, 3), 842), own)


@topics.file("kills")
def _survivors(topic: BiasTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    own = {"sa": [0.0625, 0.11, 0.02], "sb": [0.03125, 0.05, 0.125], "sy": [2, 3, 1.5]}
    topic.add_survivors({**own, "zy": [-30, 3, 40], "bias": [9000, -9000, 20_000]})
    for number, (m, n) in enumerate(((1, 1), (2, 2))):
        a = from_recipe("uint8", (m, 33_025), Recipe(0, 255, 255))
        b = from_recipe("uint8", (33_025, n), Recipe(0, 255, 255))
        text = "sum and bias come to 2^32 together, of which nothing is lost"
        own, flags = {"bias": [TOP - number], "sb": [2.0**-26]}, "Large LargeAccumulator"
        topic.add(f"twice-32-bits-{m}", text, "QMM-9", a, b, own, flags)
