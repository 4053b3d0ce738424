"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: one rounding, cancellation, overflow and special values."""

from collections.abc import Sequence
from fractions import Fraction
from math import inf, nan

from .._shared import floats as exact
from .._shared.convolution_cases import Scale
from .._shared.floats import FORMATS
from .._shared.matmul_cases import live, operand
from .._shared.near_ties import Draw
from ..topics import Files, bits, drawn, floats, ints
from .cases import OPERATOR, FloatTopic

Column = tuple[int, Scale, float]  # a sum, the scale of B, and the bias
SHAPES = ((1, 6), (3, 9), (2, 31), (1, 17), (8, 8), (4, 7), (2, 16))  # rows and terms
TINY = Fraction(2) ** -23


class ColumnTopic(FloatTopic):
    """One file of calls that say sum, scale and bias of each column."""

    number = 0

    def add_columns(
        self,
        name: str,
        comment: str,
        clause: str,
        columns: Sequence[Column],
        flags: str,
        dtype: str = "float32",
        sa: Scale = 1,
    ) -> None:
        """Add a call whose first row has these columns, with other rows and terms each time."""
        self.number += 1
        rows, terms = SHAPES[self.number % len(SHAPES)]
        a, b = live([abs(total) for total, _, _ in columns], rows, terms, 850 + self.number)
        scales = [-Fraction(scale) if total < 0 else scale for total, scale, _ in columns]
        bias = floats(dtype, (len(columns),), [each for _, _, each in columns])
        own = {"sa": [sa], "sb": scales, "bias": bias}
        self.add(name, comment, clause, a, b, own, flags, dtype)


topics = Files(OPERATOR, ColumnTopic)
EDGE = {"float32": 2.0**24, "float16": 2048.0}  # where odd integers lie halfway
LARGEST = {"float32": 2.0**128 - 2.0**104, "float16": 65504.0}


@topics.file("rounding")
def _rounding(topic: ColumnTopic) -> None:
    for dtype, edge in EDGE.items():
        for number in (1, 2, 3):
            scale = 2.0 ** (number - 2)
            sides = [(sign * 1, sign * edge * scale) for sign in (1, -1)]
            sides += [(sign * 1, sign * (edge + 2) * scale) for sign in (1, -1)]
            columns: list[Column] = [(total, scale, bias) for total, bias in sides]
            columns += [(3 * total, scale, bias) for total, bias in sides]
            text = f"halfway between two numbers of {dtype}: the even one of both neighbours"
            topic.add_columns(f"ties-{dtype}-{number}", text, "MMF-1", columns, "Tie", dtype)
        above: list[Column] = [
            (total, scale, bias) for total, bias in sides for scale in (1 + TINY, 1 - TINY)
        ]
        text = f"hardly beside the middle between two numbers of {dtype}"
        for number in (1, 2):
            name, flag = f"beside-ties-{dtype}-{number}", "NearTieFloat32"
            columns = [(total, scale, bias / 2) for total, scale, bias in above]
            topic.add_columns(name, text, "MMF-1", columns, flag, dtype)
        columns = [(total, 1 - TINY, bias / 2) for total, bias in sides]
        text = f"scales whose product is 1 - 2^-46, so that float64 sees a tie of {dtype}"
        for number in (1, 2):
            name, flag = f"sticky-float64-{dtype}-{number}", "NearTieFloat64"
            topic.add_columns(name, text, "MMF-1", columns, flag, dtype, 1 + TINY)
    large = [2**24 + 1, 2**24 + 3, 2**24 + 2, 2**24 + 5, -(2**24) - 1, -(2**24) - 3]
    a, b = live([abs(each) for each in large], 1, 262, 871)
    for name, bias in {"": 0.0, "-and-more": 2.0**-80, "-and-less": -(2.0**-80)}.items():
        own = {"sa": [1], "sb": [1 if each > 0 else -1 for each in large], "bias": [bias]}
        text = f"sums of 25 bits, halfway between two numbers, and a bias of {bias}"
        flags = "Tie LargeAccumulator"
        topic.add(f"large-sums{name}", text, "MMF-1 MMF-2", a, b, own, flags)


@topics.file("drawn")
def _drawn(topic: ColumnTopic) -> None:
    """Add scales of 24 bits and a bias of the same size, so that each rounding shows."""
    for number, (m, k, n) in enumerate(((1, 3, 9), (3, 8, 3), (2, 31, 5), (7, 65, 1))):
        for dtype in EDGE:
            draw, high = Draw(80 + number), FORMATS[dtype].fraction
            sa, sb = ([Fraction(draw.odd(24), 2**28) for _ in range(c)] for c in (m, n))
            a, b = operand("uint8", (m, k), 881 + number), operand("int8", (k, n), 891)
            steps = drawn("int32", (m * n,), 895, -(2**high), 2**high).words
            bias = floats(dtype, (m, n), [step / 2.0 ** (high - 5) for step in steps])
            own, flags = {"sa": sa, "sb": sb, "bias": bias}, "Rounding"
            text = f"{m} x {k} by {k} x {n}: long scales and a bias, rounded once to {dtype}"
            topic.add(f"drawn-{dtype}-{m}-{k}-{n}", text, "MMF-1", a, b, own, flags, dtype)
            own = {"sa": sa, "sb": sb}
            text = f"{text.split(':')[0]}: long scales, rounded once to {dtype}"
            topic.add(f"scaled-{dtype}-{m}-{k}-{n}", text, "MMF-1", a, b, own, flags, dtype)


@topics.file("cancellation")
def _cancellation(topic: ColumnTopic) -> None:
    for dtype in EDGE:
        columns: list[Column] = [
            (sign * total, 0.5, -sign * total / 2) for total in (1, 7, 200) for sign in (1, -1)
        ]
        columns += [(0, 0.5, -0.0), (0, -0.5, 0.0), (0, -2, -0.0), (5, 1, -5 + 2.0**-8)]
        for number in (1, 2, 3):
            text = "the bias takes the product away: plus zero"
            clauses, flags = "MMF-8 MMF-7", "SpecialFloat"
            topic.add_columns(f"to-zero-{dtype}-{number}", text, clauses, columns, flags, dtype)
        digits = FORMATS[dtype].fraction + 1
        columns = []
        for total in (3, 77, -201, 255, -5, 1021):
            product = Fraction(total) * (1 + TINY) * (1 + 3 * TINY)
            nearest = exact.nearest(exact.exactly(-product), dtype)
            columns.append((total, 1 + 3 * TINY, float(nearest.value)))
        text = f"the bias takes the first {digits} bits of the product away"
        for number in (1, 2):
            name = f"to-the-last-bits-{dtype}-{number}"
            topic.add_columns(name, text, "MMF-1 MMF-7", columns, "Rounding", dtype, 1 + TINY)


@topics.file("special")
def _special(topic: ColumnTopic) -> None:
    for dtype, largest in LARGEST.items():
        _add_special_biases(topic, dtype)
        _add_overflows(topic, dtype, largest)
        _add_subnormals(topic, dtype)
    _add_far_scales(topic)
    _add_subnormal_scales(topic)
    text = "every element of A is its zero point, so that the bias is all"
    a, b = ints("uint8", (2, 5), [7] * 10), operand("int8", (5, 3), 842)
    own = {"za": [7], "bias": floats("float32", (2, 3), [5, -5.5, 2.0**-149, inf, -0.0, 0.125])}
    topic.add("bias-alone", text, "MMF-7", a, b, own)


def _add_special_biases(topic: ColumnTopic, dtype: str) -> None:
    biases = (nan, inf, -inf, 0.0, -0.0, 1.0)
    columns: list[Column] = [(total, 0.5, bias) for bias in biases for total in (3, -3, 0)]
    text = "NaN, infinities and zeros of the bias"
    for number in (1, 2):
        clauses, flags = "MMF-7 MMF-8", "SpecialFloat"
        topic.add_columns(f"bias-{dtype}-{number}", text, clauses, columns, flags, dtype)


def _add_overflows(topic: ColumnTopic, dtype: str, largest: float) -> None:
    step = 2.0**103 if dtype == "float32" else 16.0
    below = Fraction(step) * (1 - TINY)
    columns: list[Column] = [
        (sign * total, scale, sign * largest)
        for sign in (1, -1)
        for total, scale in ((1, step), (1, below), (2, step), (0, step), (-1, step))
    ]
    text = f"just below {dtype}'s largest number, halfway to the next, and above"
    for number in (1, 2):
        clauses, flags = "MMF-1", "SpecialFloat Tie"
        topic.add_columns(f"overflow-{dtype}-{number}", text, clauses, columns, flags, dtype)


def _add_subnormals(topic: ColumnTopic, dtype: str) -> None:
    least = Fraction(2) ** (-149 if dtype == "float32" else -24)
    halves = ((1, 0.0), (2, 0.0), (3, 0.0), (5, 0.0), (3, float(least)), (999, 0.0))
    columns: list[Column] = [(s * total, 0.5, bias) for s in (1, -1) for total, bias in halves]
    text = f"halves of {dtype}'s smallest number"
    for number in (1, 2):
        name, flags = f"subnormal-{dtype}-{number}", "SpecialFloat Tie"
        topic.add_columns(name, text, "MMF-1", columns, flags, dtype, least)
    scales = (0.5 + 2.0**-20, 0.5 - 2.0**-20, 0.75, 0.25)
    columns = [(total, scale, 0.0) for total in (1, -1) for scale in scales]
    text = f"next to half of {dtype}'s smallest number; what becomes zero keeps its sign"
    name, clauses = f"vanishing-{dtype}", "MMF-1 MMF-8"
    topic.add_columns(name, text, clauses, columns, "SpecialFloat", dtype, least)


def _add_far_scales(topic: ColumnTopic) -> None:
    far, near, flags = 2.0**100, 2.0**-100, "OddScale"
    biases = ((0, 0.0), (0, 5.0), (1, -inf), (-1, inf), (1, 0.0), (-2, 1.0))
    columns: list[Column] = [(total, far, bias) for total, bias in biases]
    text = "the product of both scales leaves FLOAT32 above; a sum of zero is zero all the same"
    for number in (1, 2, 3):
        name = f"scales-overflow-{number}"
        topic.add_columns(name, text, "MMF-11", columns, flags, "float32", far)
    columns = [(total, near, 0.0) for total in (1, -1, 255)]
    columns += [(7, near, 3.0), (9, 2.0**20, 1.5)]
    text = "the product of both scales leaves FLOAT32 below"
    for number in (1, 2):
        name = f"scales-underflow-{number}"
        topic.add_columns(name, text, "MMF-11", columns, flags, "float32", near)


def _add_subnormal_scales(topic: ColumnTopic) -> None:
    columns: list[Column] = [(n, Fraction(5, 2**24), 0.0) for n in (1, 3, 77, 255, -1000)]
    text = (
        "the product of both scales is subnormal and loses bits, the result none that it can hold"
    )
    for number in (1, 2):
        name, sa = f"scales-subnormal-{number}", Fraction(2**24 - 1, 2**149)
        topic.add_columns(name, text, "MMF-11", columns, "OddScale", "float32", sa)
    words = [1, 3, 0x00400001, 0x80000005, 0xBF000000, 0x3F000000]
    for name, key in (("a", "sa"), ("b", "sb")):
        a = operand("uint8", (6, 5), 861) if name == "a" else operand("uint8", (2, 5), 862)
        b = operand("int8", (5, 6), 863) if name == "b" else operand("int8", (5, 3), 864)
        sizes = (6, 1) if name == "a" else (6,)
        own = {key: bits("float32", sizes, words), ("sb" if key == "sa" else "sa"): [2.0**100]}
        text = f"subnormal and negative scales of {name.upper()}"
        topic.add(f"odd-scales-{name}", text, "MMF-11 MMF-5", a, b, own, "OddScale PerChannel")


@topics.file("kills")
def _survivors(topic: ColumnTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    own = {"sa": [0.0625, 0.11, 0.02], "sb": [0.03125, 0.05, 0.125], "bias": [90, -90.5, 20.25]}
    topic.add_survivors(own)
