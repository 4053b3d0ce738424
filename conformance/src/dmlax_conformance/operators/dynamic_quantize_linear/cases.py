"""DYNAMIC_QUANTIZE_LINEAR."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from .._shared.covering import Apart, Factors, Row
from .._shared.floats import encode, exactly, nearest
from .._shared.near_ties import Draw
from .._shared.systematic import PERIOD, each_pair, each_size, flags_of, sizes_of
from ..topics import Files, Topic, bits, drawn, ints
from .meaning import parameters

OPERATOR = "dynamic_quantize_linear"
EIGHT_BIT = ("uint8", "int8")
LEAST, LARGEST = Fraction(2) ** -149, Fraction(2) ** 128 - Fraction(2) ** 104


class DynamicTopic(Topic):
    """One file of calls."""

    def add(
        self,
        name: str,
        text: str,
        clause: str,
        dtype: str,
        flags: str,
        x: Tensor,
        requires: str = "",
    ) -> None:
        """Add a valid call with an output of the dtype."""
        one = (1,)
        asked = {
            "OutputTensor": Request(dtype, x.sizes),
            "OutputScaleTensor": Request("float32", one),
            "OutputZeroPointTensor": Request(dtype, one),
        }
        self.valid(name, text, clause, {"InputTensor": x}, asked, None, flags, requires)

    def add_open(self, name: str, text: str, dtype: str, x: Tensor, base: str) -> None:
        """Add a call whose outputs are all open, which counts only with another."""
        self.add(name, text, "DYN-7", dtype, "SpecialFloat", x)
        self.leave_open(name)
        self._vectors[-1]["beside"] = self.prefix + base

    def add_each(self, name: str, text: str, clause: str, flags: str, x: Tensor) -> None:
        """Add a call for each type of the output."""
        for dtype in EIGHT_BIT:
            self.add(f"{name}-{dtype}", f"{text}, {dtype}", clause, dtype, flags, x)


topics = Files(OPERATOR, DynamicTopic)


def row(dtype: str, values: Sequence[Fraction | float], *sizes: int) -> Tensor:
    """Return the nearest floats, as a vector unless sizes are given."""
    words = [encode(exactly(Fraction(value)), dtype) for value in values]
    return bits(dtype, sizes or (len(words),), words)


RANGES: Mapping[str, tuple[str, Sequence[Fraction | float]]] = {
    "positive": ("0 is not among them", [3, 4.5, 100, 77, 3.25]),
    "negative": ("0 is not among them", [-3, -4.5, -100, -77, -3.25]),
    "both": ("both signs", [-1.5, 0.25, 7, -0.875, 6.99]),
    "mostly-negative": ("both signs", [-255, -1, 0.125, 5, -31]),
    "one-value": ("one value", [2.5]),
    "one-negative": ("one value", [-0.3]),
    "constant": ("all alike", [7.25] * 9),
    "constant-negative": ("all alike", [-7.25] * 9),
    "zeros": ("hi is lo", [0] * 5),
    "ends": ("a scale of 1", [-128, 127, 0, 1, -1, 63.5, 0.5, -0.5, 1.5, 2.5]),
    "overflows": ("a range that FLOAT32 does not hold", [-LARGEST, LARGEST, 1, LARGEST / 3]),
    "largest": ("the largest number", [LARGEST, LARGEST / 2, 0]),
    "least": ("the least subnormals: the scale is 1", [LEAST, 0, LEAST * 127, -0.0]),
    "half-least": ("a scale of half the least: 1", [LEAST * 127, 0, LEAST * 60]),
    "beyond-half": ("a scale just above half the least", [LEAST * 128, 0, LEAST * 127]),
    "least-both": ("subnormals of both signs", [LEAST * 100, -LEAST * 200, LEAST * 3, 0]),
    "point-clamps": ("a zero point beyond its range", [-LEAST * 381, -LEAST * 7, 0, -LEAST * 255]),
    "clamps": ("quotients beyond 255", [LEAST * 380, LEAST * 255, LEAST * 7, 0]),
    "subnormal": ("a subnormal scale", [LEAST * 2**22, -LEAST * 999_999, LEAST * 5, 0]),
    "into-subnormal": ("a normal range, a subnormal scale", [LEAST * 2**25, -LEAST * 2**24 / 3]),
    "wide": ("300 and what is tiny", [300, 1e-30, -1e-30, 1.17, -0.58]),
}


@topics.file("ranges")
def _ranges(topic: DynamicTopic) -> None:
    for name, (text, values) in RANGES.items():
        topic.add_each(
            name, text, "DYN-1 DYN-2 DYN-3 DYN-4 DYN-5", "Extreme", row("float32", values)
        )


HALVES: Mapping[str, Sequence[float]] = {
    "both": [-1.5, 0.25, 7, -0.875, 6.99],
    "largest": [65504, -65504, 1, 0.1],
    "subnormal": [2.0**-24, -(2.0**-24) * 77, 2.0**-15, 0],
    "positive": [3, 4.5, 100, 77, 3.25],
    "negative": [-3, -4.5, -100, -77, -3.25],
    "tiny": [2.0**-24, 0],
}


@topics.file("float16")
def _float16(topic: DynamicTopic) -> None:
    for name, values in HALVES.items():
        text, clause = "FLOAT16, whose scale is FLOAT32", "DYN-1 DYN-2 DYN-6"
        topic.add_each(f"float16-{name}", text, clause, "", row("float16", values))


@topics.file("rounding")
def _rounding(topic: DynamicTopic) -> None:
    clause = "DYN-4 DYN-5"
    for number, least in enumerate((-0.5, -1.5, -2.5, -127.5, -126.5, -253.5)):
        steps = [0.5, 1.5, 2.5, 3.5, -0.5, 0.53125, 1.46875, 7.5, 100.5, 101.5]
        values = [least, least + 255, *(v for v in steps if least <= v <= least + 255)]
        values += [0.5 - 2.0**-17, 1.5 - 2.0**-17, 1.5 + 2.0**-20]
        text = f"halves of a scale of 1, the least {least}"
        topic.add_each(f"ties-{number + 1}", text, clause, "Tie", row("float32", values))
    draw = Draw(9)
    for number in range(10):
        low = -Fraction(draw.odd(22 + number % 3), 2**20)
        high = Fraction(draw.odd(24), 2**20)
        scale = parameters([low, high], "uint8")[0].value
        near = [(Fraction(steps, 2)) * scale for steps in (1, 3, -3, 7, -1, 9, 15, 33)]
        text = "near ties of a scale that is no power of two"
        topic.add_each(
            f"near-{number + 1}",
            text,
            "DYN-2 DYN-5",
            "NearTieFloat32",
            row("float32", [low, high, *near]),
        )
    for number, ends in enumerate(_near_points(8)):
        text = "the zero point is a near tie, by the rounded scale"
        topic.add_each(
            f"points-{number + 1}", text, "DYN-2 DYN-4", "Tie", row("float32", [*ends, 0])
        )


def _near_points(count: int) -> list[tuple[Fraction, Fraction]]:
    """Return ranges whose zero point differs by exact and by rounded scale."""
    found: list[tuple[Fraction, Fraction]] = []
    draw = Draw(21)
    while len(found) < count:
        length, steps = draw.odd(16), 2 * draw.below(255) + 1
        low = nearest(exactly(Fraction(-length * steps, 510)), "float32").value
        high = nearest(exactly(low + length), "float32").value
        scale = parameters([low, high], "uint8")[0].value
        exact = (high - low) / 255
        if round(-low / exact) != round(-low / scale):
            found.append((low, high))
    return found


SPECIAL = {"nan": 0x7FC00000, "infinity": 0x7F800000, "minus-infinity": 0xFF800000}
SPECIAL_16 = {"nan": 0x7E01, "infinity": 0x7C00, "minus-infinity": 0xFC00}


@topics.file("special")
def _special(topic: DynamicTopic) -> None:
    zeros = bits("float32", (4,), [0, 1 << 31, 0x3F800000, 0xBF800000])
    topic.add_each("zeros-of-both-signs", "0 and -0", "DYN-1 DYN-5", "SpecialFloat", zeros)
    minus = bits("float32", (3,), [1 << 31] * 3)
    topic.add_each("minus-zeros", "-0 alone: the scale is 1", "DYN-3", "SpecialFloat", minus)
    base = "zeros-of-both-signs-int8"
    for (dtype, words), (number, result) in product(
        (("float32", SPECIAL), ("float16", SPECIAL_16)), enumerate(EIGHT_BIT)
    ):
        for name, word in words.items():
            finite = [encode(exactly(Fraction(v)), dtype) for v in (1, -2, 3)]
            finite.insert(number * 3, word)
            text = f"one element is {name}: all outputs are open"
            x = bits(dtype, (4,), finite)
            topic.add_open(f"{name}-{dtype}-{result}", text, result, x, base)


COUNTS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129)
VALUES = (0.5, -0.25, 1.5, 0.75, -1, 2, 0.125, -0.5, 1.25, 0, 1.875)
SIZES: Mapping[str, tuple[int, ...]] = {
    "rank-2": (3, 5),
    "rank-3": (3, 3, 3),
    "rank-4": (3, 3, 3, 3),
    "rank-5": (2, 1, 3, 1, 2),
    "rank-6": (1, 2, 1, 2, 1, 3),
    "rank-7": (2, 1, 2, 1, 2, 1, 2),
    "rank-8": (1, 2, 1, 2, 1, 2, 1, 3),
}


@topics.file("extremes")
def _extremes(topic: DynamicTopic) -> None:
    """Put the extreme at any place of vectors of any length."""
    clause = "DYN-1 DYN-8"
    for number, count in enumerate(COUNTS):
        for place, extreme in {"last": 9.75, "first": -7.5, "middle": -20.5}.items():
            if count < 7 and place != "last":
                continue
            if place == "middle" and number % 2:
                continue
            at = {"last": count - 1, "first": 0, "middle": count // 2}[place]
            values = [VALUES[i % len(VALUES)] for i in range(count)]
            values[at] = extreme
            text = f"{count} elements, the {place} is the extreme"
            dtype = EIGHT_BIT[number % 2]
            topic.add(
                f"{place}-of-{count}", text, clause, dtype, "BlockEdge", row("float32", values)
            )


@topics.file("shapes")
def _shapes(topic: DynamicTopic) -> None:
    for number, (name, sizes) in enumerate(SIZES.items()):
        words = drawn("int32", (prod(sizes),), 60 + number, -999, 999).words
        x = row("float32", [Fraction(word, 16) for word in words], *sizes)
        x = Tensor(x.dtype, sizes, x.words)
        text = f"an input of sizes {list(sizes)}"
        topic.add(name, text, "DYN-5 DYN-8", EIGHT_BIT[number % 2], "", x)
    x, text = bits("float32", (0, 3), []), "an input without elements: the scale is 1"
    topic.add("empty", text, "DYN-3", "uint8", "Empty", x, "sizes:zero")


WRONG: Mapping[str, tuple[str, Tensor]] = {
    "int32-input": ("InputTensor", ints("int32", (3,), [1, 2, 3])),
    "uint8-input": ("InputTensor", ints("uint8", (3,), [1, 2, 3])),
    "int8-input": ("InputTensor", ints("int8", (3,), [1, 2, 3])),
    "complex-input": ("InputTensor", bits("complex64", (3,), [0x3F800000] * 3)),
}


@topics.file("invalid")
def _invalid(topic: DynamicTopic) -> None:
    topic.add("twin", "the twin: three numbers", "DYN-6", "uint8", "", row("float32", [1, 2, 3]))
    topic.wrong("twin", "data_type", "DYN-6", "{field} is {dtype}", WRONG)
    for dtype in ("int16", "uint16", "int32", "float32"):
        asked, text = {"OutputTensor": Request(dtype, (3,))}, f"an output of {dtype} is asked for"
        topic.invalid(f"{dtype}-output", text, "DYN-6", "twin", "data_type", asked)


FACTORS: Factors = {
    "input": ("float32", "float16"),
    "output": EIGHT_BIT,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129", "255"),
}
APART: Apart = {}
SHAPES = {
    "few": {"1": (6,), "2": (2, 3), "4": (1, 3, 1, 2)},
    "129": {"1": (129,), "2": (3, 43), "4": (1, 3, 1, 43)},
    "255": {"1": (255,), "2": (15, 17), "4": (5, 1, 3, 17)},
}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: DynamicTopic, name: str, text: str, options: Row, number: int) -> None:
    sizes = SHAPES[options["elements"]][options["rank"]]
    words = drawn("int32", sizes, 80 + number, -600, 600).words
    x = row(options["input"], [Fraction(word, 8) for word in words], *sizes)
    topic.add(name, text, "DYN-1 DYN-5 DYN-6", options["output"], "", x)


@topics.file("size-classes")
@each_size
def _of_size(topic: DynamicTopic, count: int, number: int) -> None:
    words = drawn("int32", (PERIOD,), 160 + number, -600, 600).words
    own = row("float32", [Fraction(word, 8) for word in words])
    x = from_recipe("float32", sizes_of(count), Cycle(own.words))
    text = f"{count} elements in sizes {list(x.sizes)}"
    dtype = EIGHT_BIT[number % 2]
    topic.add(f"elements-{count}", text, "DYN-5 DYN-8", dtype, flags_of(count), x)
