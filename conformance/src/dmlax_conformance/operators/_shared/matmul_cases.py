"""Calls of the three matrix products: operands, parameters, and the cases that all have."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Topic, bits, drawn, floats, ints
from .convolution_cases import EIGHT, NONE, Parameters, Scale
from .covering import Apart, Factors, Row, apart
from .matmul import products, shape_of
from .near_ties import float32
from .rounding import RANGES
from .systematic import PERIOD, SHORT, repeat

LETTERS = {"a": "A", "b": "B", "y": "Output"}
NAMES = {
    **{f"z{key}": f"{name}ZeroPointTensor" for key, name in LETTERS.items()},
    **{f"s{key}": f"{name}ScaleTensor" for key, name in LETTERS.items()},
    "bias": "BiasTensor",
}
PRINTED = 60  # elements; more are drawn by a recipe
NO_SCALES = {
    "zero": 0,
    "minus-zero": 0x80000000,
    "nan": 0x7FC00000,
    "infinity": 0x7F800000,
    "minus-infinity": 0xFF800000,
}


class MatmulTopic(Topic):
    """One file of calls; the operator says what it returns, its scales, and its clauses."""

    dtype = "int32"
    bias_type = "int32"  # empty if it is the output's
    scales = NONE
    clauses: Mapping[str, str]

    def add(
        self,
        name: str,
        comment: str,
        clause: str,
        a: Tensor,
        b: Tensor,
        own: Parameters = NONE,
        flags: str = "",
        dtype: str = "",
        requires: str = "",
        paired_with: str | None = None,
    ) -> None:
        """Add a valid call; `own` are its parameters by the keys of `NAMES`."""
        dtype = dtype or self.dtype
        types = {"za": a.dtype, "zb": b.dtype, "zy": dtype, "bias": self.bias_type or dtype}
        given = {"ATensor": a, "BTensor": b}
        for key, values in {**self.scales, **own}.items():
            if isinstance(values, Tensor):
                given[NAMES[key]] = values
            elif values is not None:
                given[NAMES[key]] = parameter(key, values, types.get(key, "float32"))
        asked = {"OutputTensor": Request(dtype, shape_of(a.sizes, b.sizes).output)}
        self.valid(name, comment, clause, given, asked, None, flags, requires, None, paired_with)

    # -- what every product has ----------------------------------------------------------------

    def reveal(self, a: Tensor, b: Tensor, own: Parameters) -> Parameters:
        """Return parameters with which each bit of a sum shows."""
        return own

    def add_types(self, outputs: Sequence[str] = ("",), more: Parameters = NONE) -> None:
        """Let both ends of every range meet, with zero points and without."""
        for ta, tb, out in product(RANGES, RANGES, outputs):
            (al, ah), (bl, bh) = RANGES[ta], RANGES[tb]
            a = ints(ta, (2, 6), [al, ah, al, ah, ah, al, ah, ah, al, al, ah, 1])
            b = ints(
                tb, (6, 3), [bl, bh, bh, bl, bh, bh, bl, bl, bh, bl, bh, bh, bl, 1, bl, bh, 0, 0]
            )
            label = "-".join(filter(None, (ta, tb, out)))
            text = f"{ta} A and {tb} B at the ends of their ranges"
            clauses = f"{self.clauses['sum']} {self.clauses['type']}"
            own = {"za": [al], "zb": [bh], **more}
            self.add(f"extremes-{label}", text, clauses, a, b, own, "Extreme", out)
            clauses = f"{self.clauses['absent']} {self.clauses['type']}"
            text, flags = f"{text}, no zero points", "Extreme Optional"
            self.add(f"no-zero-points-{label}", text, clauses, a, b, more, flags, out)

    def add_shapes(self) -> None:
        """Add operands of each rank, and batches that repeat."""
        for number, (name, (a, b)) in enumerate(SHAPES.items()):
            x, w = operand(EIGHT[number % 2], a, 100 + number), operand("int8", b, 130 + number)
            own = {"za": [x.words[0]], "zb": [w.words[-1]]}
            clauses = f"{self.clauses['shape']} {self.clauses['rank']}"
            text = f"A of sizes {list(a)} and B of sizes {list(b)}"
            self.add(name, text, clauses, x, w, own, "Broadcast" * (len(a) != len(b)))

    def add_points(self) -> None:
        """Add zero points that are absent, one value in any shape, or each row's or column's."""
        a, b = operand("uint8", (4, 5), 301), operand("int8", (5, 4), 302)
        rows, columns = [120, 0, 255, 9], [-5, 127, -128, 60]
        for name, (za, zb) in {
            "a": ([120], None),
            "b": (None, [-5]),
            "a-rows": (rows, None),
            "b-columns": (None, columns),
            "a-rows-b-one": (rows, [3]),
            "rows-and-columns": (rows, columns),
        }.items():
            text, flags = f"zero points: {name.replace('-', ' ')}", "Optional PerChannel"
            clauses = f"{self.clauses['points']} {self.clauses['absent']}"
            self.add(f"points-{name}", text, clauses, a, b, {"za": za, "zb": zb}, flags)
        for sizes in ((1,), (1, 1), (1, 1, 1, 1)):
            own = {"za": ints("uint8", sizes, [120]), "zb": ints("int8", sizes, [-5])}
            text = f"zero points of one value, of sizes {list(sizes)}"
            self.add(f"points-rank-{len(sizes)}", text, self.clauses["points"], a, b, own)
        a, b = operand("uint8", (2, 3, 5), 303), operand("int8", (2, 5, 4), 304)
        own = {
            "za": drawn("uint8", (2, 3, 1), 305, 0, 255),
            "zb": drawn("int8", (2, 1, 4), 306, -99, 99),
        }
        text = "zero points of each matrix of a batch"
        self.add("points-batch", text, self.clauses["points"], a, b, own, "PerChannel")
        own = {"za": drawn("uint8", (3, 1), 307, 0, 255), "zb": drawn("int8", (1, 4), 308, -99, 99)}
        text = "zero points of rank 2, the same for each matrix of a batch"
        self.add("points-repeated", text, self.clauses["points"], a, b, own, "PerChannel Broadcast")

    def add_sums(self) -> None:
        """Add long sums, and sums that wrap, for several sizes of the output."""
        clause, flags = self.clauses["sum"], "Large LargeAccumulator"
        for number, (m, k, n) in enumerate(((1, 300, 1), (3, 515, 5), (9, 261, 8), (2, 1024, 17))):
            a = from_recipe("uint8", (m, k), Recipe(401 + number, 230, 255))
            b = from_recipe("uint8", (k, n), Recipe(411 + number, 240, 255))
            text = f"{k} large products: sums of 24 bits and more"
            self._add_sum(f"long-sum-{m}-{k}-{n}", text, clause, a, b, NONE, flags)
        a = from_recipe("int8", (2, 4099), Recipe(421, -128, 127))
        b = from_recipe("uint8", (4099, 3), Recipe(422, 0, 255))
        text, flags = "4,099 products of both signs", "Large OddContraction"
        self._add_sum("both-signs-4099", text, clause, a, b, {"za": [-3]}, flags)
        for name, (a_sizes, b_sizes) in PAIRS.items():
            a = from_recipe("uint8", a_sizes, Recipe(0, 255, 255))
            for end, word in (("", 127), ("-low", -128)):
                b = from_recipe("int8", b_sizes, Recipe(0, word, word))
                text = "two products leave 16 bits, so they must not saturate there"
                self._add_sum(f"pair-sums-{name}{end}", text, clause, a, b, NONE, "Extreme")
        a = from_recipe("uint8", (1, 33_025), Recipe(0, 255, 255))
        b = from_recipe("uint8", (33_025, 1), Recipe(0, 255, 255))
        text = "33,025 products of 255 * 255, the most that 32 bits hold"
        self._add_sum("sum-at-the-end", text, clause, a, b, NONE, "Large Extreme")
        self._add_wrapping()

    def _add_wrapping(self) -> None:
        clause, flags, need = self.clauses["overflow"], "Overflow Large", "overflow:wrap"
        for number, (name, (a_sizes, b_sizes)) in enumerate(WRAPS.items()):
            low, high = ((255, 255), (252, 255))[number % 2]
            a = from_recipe("uint8", a_sizes, Recipe(431 + number, low, high))
            b = from_recipe("uint8", b_sizes, Recipe(441 + number, low, high))
            text = f"{a_sizes[-1]:,} products leave 32 bits"
            self._add_sum(f"wraps-{name}", text, clause, a, b, NONE, flags, need)
        a = from_recipe("uint8", (2, 33_100), Recipe(0, 255, 255))
        b = from_recipe("int8", (33_100, 1), Recipe(0, -128, -128))
        text = "33,100 products of 255 * -255 leave 32 bits below"
        self._add_sum("wraps-below", text, clause, a, b, {"zb": [127]}, flags, need)

    def _add_sum(
        self,
        name: str,
        text: str,
        clause: str,
        a: Tensor,
        b: Tensor,
        own: Parameters,
        flags: str,
        need: str = "",
    ) -> None:
        self.add(name, text, clause, a, b, self.reveal(a, b, own), flags, requires=need)

    def add_empty(self, own: Parameters = NONE) -> None:
        """Add sums without products, and outputs without elements."""
        counts, need, flags = "row-column", "sizes:zero", "Empty"
        for name, (a_sizes, b_sizes) in EMPTY.items():
            a, b = operand("uint8", a_sizes, 1), operand("int8", b_sizes, 2)
            text = f"A of sizes {list(a_sizes)} and B of sizes {list(b_sizes)}"
            clause = self.clauses["absent"]
            has_values = "bias" in own and 0 not in shape_of(a_sizes, b_sizes).output
            given = own if has_values else {**own, "bias": None, "zy": None}
            beside = None if has_values else counts
            self.add(f"empty-{name}", text, clause, a, b, given, flags, "", need, beside)

    def add_size(self, count: int, number: int, own: Parameters, flags: str) -> None:
        """Add a call with so many output elements, and a zero point that is one too short."""
        seed, clauses = 600 + 2 * number, f"{self.clauses['sum']} {self.clauses['points']}"
        wanted: Parameters
        short: tuple[int, ...]
        if count in FOLDED:
            m, n = FOLDED[count]
            a, b = operand("uint8", (m, 3), seed), operand("int8", (3, n), seed + 1)
            wanted, field, short = {"zb": [5]}, "BZeroPointTensor", (n - 1,)
        elif number % 2:
            a = repeat(operand("uint8", (PERIOD,), seed, True), (count, 3))
            b = operand("int8", (3, 1), seed + 1)
            wanted = {"za": repeat(operand("uint8", (PERIOD,), seed + 2, True), (count, 1))}
            field, short = "AZeroPointTensor", (count - 1, 1)
        else:
            a = operand("uint8", (1, 3), seed)
            b = repeat(operand("int8", (PERIOD,), seed + 1, True), (3, count))
            wanted = {"zb": repeat(operand("int8", (PERIOD,), seed + 2, True), (count,))}
            field, short = "BZeroPointTensor", (count - 1,)
        base, text = f"elements-{count}", f"{count} output elements"
        self.add(base, text, clauses, a, b, {**own, **wanted}, flags)
        if count in SHORT:
            dtype = "int8" if field.startswith("B") else "uint8"
            cut = repeat(operand(dtype, (PERIOD,), seed + 2, True), short)
            name, text = f"zero-point-short-{count}", f"{field} has sizes {list(short)}"
            self.invalid(name, text, self.clauses["points"], base, "sizes", {field: cut})
            cut = repeat(operand("int8", (PERIOD,), seed + 1, True), (2, b.sizes[1]))
            name, text = f"b-short-{count}", f"B has sizes {list(cut.sizes)}"
            self.invalid(name, text, self.clauses["shape"], base, "sizes", {"BTensor": cut})

    def add_twins(self, own: Parameters) -> None:
        """Add the calls that invalid ones change: two rows, four columns, and two matrices."""
        a, b = operand("uint8", (2, 3), 11), operand("int8", (3, 4), 12)
        text = "the twin: every tensor is present"
        self.add("twin", text, self.clauses["sum"], a, b, own, "Optional")
        a, b = operand("uint8", (2, 2, 3), 13), operand("int8", (2, 3, 4), 14)
        text, own = "the twin: a batch of two", {"za": [7], "zb": [1]}
        self.add("twin-batch", text, self.clauses["shape"], a, b, own, "Optional")

    def refuse_operands(self) -> None:
        """Add what is wrong with operands and zero points in every product."""
        text, types = "{field} is {dtype}", f"{TYPES} {POINT_TYPES}"
        self.wrong("twin", "data_type", self.clauses["type"], text, WRONG, types)
        text = "{field} has no dimension"
        self.wrong(
            "twin", "dimension_count", self.clauses["rank"], text, WRONG, "a-rank-0 b-rank-0"
        )
        text = "{field} has sizes {sizes}"
        names = "b-2-rows b-4-rows b-transposed b-rank-1"
        self.wrong("twin", "sizes", self.clauses["shape"], text, WRONG, names)
        names = "b-batch-3 b-batch-4-2 b-batch-2-3"
        self.wrong("twin-batch", "sizes", self.clauses["shape"], text, WRONG, names)
        names = (
            "a-zero-points-flat a-zero-points-3 a-zero-points-by-k a-zero-points-in-a-row"
            " a-zero-points-by-element b-zero-points-3 b-zero-points-by-k b-zero-points-5"
        )
        self.wrong("twin", "sizes", self.clauses["points"], text, WRONG, names)
        names = "a-zero-points-batch-3 b-zero-points-batch-3"
        self.wrong("twin-batch", "sizes", self.clauses["points"], text, WRONG, names)

    def refuse_scales(
        self, clause: str, own: Parameters, wrong: Mapping[str, Sequence[str]]
    ) -> None:
        """Add a twin, and wrong scales of operands behind fine ones; a NaN is before them, too."""
        a, b = operand("uint8", (2, 3), 11), operand("int8", (3, 4), 12)
        base, text, need = "twin-values", "the twin: known scales", "values:known"
        self.add(base, text, clause, a, b, own, "KnownValue", requires=need)
        for letter, word in ((letter, word) for letter, words in wrong.items() for word in words):
            count = 4 if letter == "B" else 2
            sizes = (count,) if letter == "B" else (count, 1)
            fine, found = [0x3F800000] * (count - 1), NO_SCALES[word]
            places = {"": [*fine, found]} | ({"-first": [found, *fine]} if word == "nan" else {})
            for place, words in places.items():
                name, text = f"{letter.lower()}-scale-{word}{place}", f"a scale is {word}"
                changed, flags = (
                    {f"{letter}ScaleTensor": bits("float32", sizes, words)},
                    "Invalid KnownValue",
                )
                self.invalid(name, text, clause, base, "value", changed, flags, need)

    def add_survivors(self, more: Parameters = NONE) -> None:
        """Add calls for planted bugs that survived all others: equal axes; `more` are of rows."""
        text = "every axis of both operands has 3 places, so that swapped axes keep all sizes"
        for rank in (2, 3, 4):
            a, b = operand("uint8", (3,) * rank, 701), operand("int8", (3,) * rank, 702)
            own = {"za": [250, 3, 99], "zb": [-90, 100, 7], **more}
            topics = ("sum", "points", "shape", *(["bias"] if "bias" in more else []))
            clauses = " ".join(self.clauses[each] for each in topics)
            self.add(f"every-axis-3-rank-{rank}", text, clauses, a, b, own, "PerChannel")


# -- tensors -----------------------------------------------------------------------------------


def operand(dtype: str, sizes: Sequence[int], seed: int, is_printed: bool = False) -> Tensor:
    """Return drawn elements over the full range, by a recipe if there are many."""
    if prod(sizes) > PRINTED and not is_printed:
        return from_recipe(dtype, tuple(sizes), Recipe(seed, *RANGES[dtype]))
    return drawn(dtype, sizes, seed, *RANGES[dtype])


def parameter(key: str, values: Sequence[Any], dtype: str) -> Tensor:
    """Return one value, or one for each row of A or the output, or for each column of B."""
    held = list(values)
    sizes = (
        () if len(held) == 1 else (len(held),) if key in ("zb", "sb", "bias") else (len(held), 1)
    )
    if key.startswith("s"):
        return bits(dtype, sizes, words_of(held))
    return (floats if dtype.startswith("float") else ints)(dtype, sizes, held)


def words_of(values: Sequence[Scale]) -> list[int]:
    """Return the float32 bits of scales."""
    return [float32(Fraction(value)) for value in values]


def sums_of(a: Tensor, b: Tensor, own: Parameters = NONE) -> list[int]:
    """Return the sums of operands, whose zero points are one value."""
    points = {"za": "AZeroPointTensor", "zb": "BZeroPointTensor"}
    given = {points[k]: parameter(k, own[k], "int32") for k in points if own.get(k)}
    return products({"ATensor": a, "BTensor": b, **given})[1]


def live(wanted: Sequence[int], rows: int, terms: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return A and B whose first row of sums is what is wanted, from 0 on; other rows are drawn."""
    drawn_rows = drawn("uint8", (rows, terms), seed, 0, 255).words[terms:]
    columns = [_column(each, terms) for each in wanted]
    a = ints("uint8", (rows, terms), [*[255] * (terms - 1), 1, *drawn_rows])
    return a, ints("uint8", (terms, len(wanted)), [c[k] for k in range(terms) for c in columns])


def _column(wanted: int, terms: int) -> list[int]:
    """Return what 255 times all but the last, plus the last, comes to."""
    rest, last = divmod(wanted, 255)
    full, part = divmod(rest, 255)
    column = [255] * full + [part] * (part > 0)
    return [*column, *[0] * (terms - 1 - len(column)), last]


def beside(number: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes of A and B with so many rows or columns; they differ with the number."""
    a, b = BESIDE[number % len(BESIDE)]
    return tuple(each or count for each in a), tuple(each or count for each in b)


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "vector-vector": ((5,), (5,)),
    "vector-matrix": ((5,), (5, 3)),
    "matrix-vector": ((4, 5), (5,)),
    "vector-batch": ((3,), (2, 3, 4)),
    "batch-vector": ((2, 4, 3), (3,)),
    "vector-rank-4": ((3,), (2, 2, 3, 2)),
    "row-column": ((1, 6), (6, 1)),
    "column-row": ((6, 1), (1, 5)),
    "batch-of-a": ((3, 2, 5), (5, 4)),
    "batch-of-b": ((2, 5), (3, 5, 4)),
    "batch-1-for-3": ((1, 2, 5), (3, 5, 4)),
    "batch-3-for-1": ((3, 2, 5), (1, 5, 4)),
    "batch-crosswise": ((2, 1, 3, 4), (3, 4, 2)),
    "batch-crosswise-back": ((3, 2, 4), (2, 1, 4, 3)),
    "batch-square": ((2, 2, 2, 3), (2, 1, 3, 2)),
    "batch-square-first": ((2, 2, 2, 3), (1, 2, 3, 2)),
    "batch-square-of-b": ((2, 2, 3), (2, 2, 3, 2)),
    "rank-3": ((3, 2, 4), (3, 4, 3)),
    "rank-4": ((2, 3, 2, 4), (2, 3, 4, 3)),
    "rank-5": ((2, 1, 2, 2, 3), (1, 3, 1, 3, 2)),
    "rank-5-and-2": ((1, 2, 2, 2, 3), (3, 2)),
}
BESIDE = (  # 0 stands for the count
    *(((1, 1), (1, 0)), ((3, 5), (5, 0)), ((0, 8), (8, 1)), ((2, 17), (17, 0))),
    *(((2, 1, 33), (33, 0)), ((0, 64), (64, 3)), ((4,), (4, 0)), ((0, 3), (3,))),
    *(((1, 65), (2, 65, 0)), ((0, 129), (129, 2)), ((1, 2, 1, 7), (1, 2, 1, 7, 0))),
)
PAIRS = {
    "2": ((1, 2), (2, 1)),
    "9": ((3, 9), (9, 5)),
    "vector-16": ((16,), (16, 8)),
    "batch-64": ((2, 2, 64), (64, 3)),
}
WRAPS = {
    "vectors": ((33_026,), (33_026,)),
    "row": ((1, 33_600), (33_600, 3)),
    "rows": ((3, 33_100), (33_100, 2)),
    "batch": ((2, 1, 33_700), (33_700,)),
}
EMPTY = {
    "k": ((2, 0), (0, 3)),
    "m": ((0, 4), (4, 3)),
    "n": ((2, 4), (4, 0)),
    "batch": ((0, 2, 4), (4, 3)),
    "k-vectors": ((0,), (0, 3)),
}
FOLDED = {128: (8, 16), 129: (3, 43), 256: (16, 16), 1000: (25, 40)}  # rows and columns


# -- what is wrong with the twins --------------------------------------------------------------


TYPES = "float-a int16-a uint32-a complex-a int32-b uint16-b float16-b"
POINT_TYPES = "int8-a-zero-point int32-a-zero-point uint8-b-zero-point float-b-zero-point"
WRONG: dict[str, tuple[str, Tensor]] = {
    "float-a": ("ATensor", floats("float32", (2, 3), range(6))),
    "int16-a": ("ATensor", ints("int16", (2, 3), range(6))),
    "uint32-a": ("ATensor", ints("uint32", (2, 3), range(6))),
    "uint16-b": ("BTensor", ints("uint16", (3, 4), range(12))),
    "int32-a-zero-point": ("AZeroPointTensor", ints("int32", (), [7])),
    "float-b-zero-point": ("BZeroPointTensor", floats("float32", (), [1])),
    "b-batch-2-3": ("BTensor", operand("int8", (2, 3, 3, 4), 27)),
    "b-zero-points-batch-3": ("BZeroPointTensor", ints("int8", (3, 1, 4), [1] * 12)),
    "a-zero-points-by-element": ("AZeroPointTensor", ints("uint8", (2, 3), [7] * 6)),
    "complex-a": ("ATensor", bits("complex64", (2, 3), [0x3F800000] * 6)),
    "int32-b": ("BTensor", ints("int32", (3, 4), range(12))),
    "float16-b": ("BTensor", floats("float16", (3, 4), range(12))),
    "int8-a-zero-point": ("AZeroPointTensor", ints("int8", (), [7])),
    "uint8-b-zero-point": ("BZeroPointTensor", ints("uint8", (), [1])),
    "a-rank-0": ("ATensor", ints("uint8", (), [3])),
    "b-rank-0": ("BTensor", ints("int8", (), [3])),
    "b-2-rows": ("BTensor", operand("int8", (2, 4), 21)),
    "b-4-rows": ("BTensor", operand("int8", (4, 4), 22)),
    "b-transposed": ("BTensor", operand("int8", (4, 3), 23)),
    "b-rank-1": ("BTensor", operand("int8", (4,), 24)),
    "b-batch-3": ("BTensor", operand("int8", (3, 3, 4), 25)),
    "b-batch-4-2": ("BTensor", operand("int8", (4, 3, 3, 4), 26)),
    "a-zero-points-flat": ("AZeroPointTensor", ints("uint8", (2,), [7, 8])),
    "a-zero-points-3": ("AZeroPointTensor", ints("uint8", (3, 1), [7, 8, 9])),
    "a-zero-points-by-k": ("AZeroPointTensor", ints("uint8", (1, 3), [7, 8, 9])),
    "a-zero-points-in-a-row": ("AZeroPointTensor", ints("uint8", (1, 2), [7, 8])),
    "a-zero-points-batch-3": ("AZeroPointTensor", ints("uint8", (3, 2, 1), [7] * 6)),
    "b-zero-points-3": ("BZeroPointTensor", ints("int8", (3,), [1, 2, 3])),
    "b-zero-points-by-k": ("BZeroPointTensor", ints("int8", (3, 1), [1, 2, 3])),
    "b-zero-points-5": ("BZeroPointTensor", ints("int8", (1, 5), [1] * 5)),
}


# -- pairs of options --------------------------------------------------------------------------


RANKS = {
    "1 and 2": ((5,), (5, 4)),
    "2 and 1": ((3, 5), (5,)),
    "2 and 2": ((3, 5), (5, 4)),
    "2 and 3": ((3, 5), (2, 5, 4)),
    "3 and 2": ((2, 3, 5), (5, 4)),
    "4 and 4": ((2, 1, 3, 5), (1, 2, 5, 4)),
}
POINTS = ("absent", "one", "each")
FACTORS: Factors = {
    "ranks": tuple(RANKS),
    "a": EIGHT,
    "b": EIGHT,
    "zero point of a": POINTS,
    "zero point of b": POINTS,
}


def kept_apart(rows: Sequence[str], columns: Sequence[str]) -> Apart:
    """Keep parameters of each row from operands of one row, and those of columns likewise."""
    one_row = [(("ranks", "1 and 2"), (name, "each")) for name in rows]
    one_column = [(("ranks", "2 and 1"), (name, "each")) for name in columns]
    return {**apart("A is one row", *one_row), **apart("B is one column", *one_column)}


def pair(row: Row, number: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return both operands and their zero points, as a row of options wants them."""
    a, b = RANKS[row["ranks"]]
    given = operand(row["a"], a, 900 + number), operand(row["b"], b, 950 + number)
    own = {"za": point(row, "a", row["a"], 3, 9), "zb": point(row, "b", row["b"], 4, -20)}
    return *given, own


def point(row: Row, name: str, dtype: str, count: int, first: int) -> list[int] | None:
    """Return no zero point, one, or one for each row or column."""
    kind, middle = row[f"zero point of {name}"], 128 * (dtype == "uint8") + first
    length = count if kind == "each" else 1
    return None if kind == "absent" else [middle + 3 * place for place in range(length)]
