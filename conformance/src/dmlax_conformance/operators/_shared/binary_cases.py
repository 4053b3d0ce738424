"""Calls of the operators on two quantized tensors: operands, and the cases that both have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...format.recipe import Cycle
from ...format.tensors import DTYPES, Tensor, from_recipe
from ...format.vectors import Request
from ..topics import Topic, drawn, floats, ints
from .binary import broadcast_sizes
from .covering import Factors, Row, apart
from .near_ties import Draw, float32
from .systematic import PERIOD, SHORT, flags_of, repeat, sizes_of

Pair = tuple[int, int]
Sizes = tuple[int, ...]
TYPES = ("uint8", "int8", "uint8")


@dataclass(frozen=True)
class Quantization:
    """Data types, scales as float32 bits and zero points of A, B and the output."""

    scales: tuple[int, ...]
    points: tuple[int | None, ...] = (None, None, None)
    dtypes: tuple[str, ...] = TYPES

    @classmethod
    def of(cls, *scales: float | Fraction, **rest: tuple[str | int | None, ...]) -> "Quantization":
        """Take scales that float32 has."""
        words = tuple(float32(Fraction(scale)) for scale in scales)
        return cls(words, **rest)  # type: ignore[arg-type]

    def words(self, pair: Pair) -> Pair:
        """Return the stored elements whose differences from the zero points are these."""
        a, b = (x + (z or 0) for x, z in zip(pair, self.points, strict=False))
        return a, b


class Values(NamedTuple):
    """A class of values: the differences from the zero points that belong to it."""

    name: str
    text: str
    clauses: str
    flags: str
    own: Quantization
    pairs: Sequence[Pair]


class BinaryTopic(Topic):
    """One file of calls; a clause is a number."""

    def add(
        self,
        name: str,
        comment: str,
        clauses: str,
        flags: str,
        a: Tensor,
        b: Tensor,
        own: Quantization,
        requires: str = "",
        paired_with: str | None = None,
    ) -> None:
        """Add a valid call; its parameters have the shapes of one element in turn."""
        sizes = broadcast_sizes(a.sizes, b.sizes)
        given = {"ATensor": a, "BTensor": b}
        forms: list[Sizes] = [(), (1,), (1,) * len(sizes)]
        for place, field in enumerate(("A", "B", "Output")):
            form = forms[(place + len(self._vectors)) % 3]
            scale, point = own.scales[place], own.points[place]
            given[f"{field}ScaleTensor"] = ints("float32", form, [scale])
            if point is not None:
                given[f"{field}ZeroPointTensor"] = ints(own.dtypes[place], form, [point])
        asked = {"OutputTensor": Request(own.dtypes[2], sizes)}
        clauses, more = self.clauses(clauses), {"requires": requires, "paired_with": paired_with}
        self.valid(name, comment, clauses, given, asked, None, flags, **more)  # type: ignore[arg-type]

    def clauses(self, numbers: str) -> str:
        """Return clauses by number."""
        prefix = {"qadd-": "ADD", "qmul-": "MUL"}[self.prefix]
        return " ".join(f"{prefix}-{number}" for number in numbers.split())

    def add_values(self, values: Iterable[Values]) -> None:
        """Add each class in several structures, so that blocked code meets it anywhere."""
        for number, each in enumerate(values):
            for name, text, a, b in _structures(each, number):
                text, flags = f"{each.text}; {text}", f"{each.flags}{' Broadcast' * ('-' in name)}"
                self.add(f"{each.name}-{name}", text, each.clauses, flags, a, b, each.own)

    def add_twin(self, name: str, requires: str = "", flags: str = "") -> None:
        """Add the call that invalid ones change, of two rows and three columns."""
        a, b = drawn("uint8", (2, 3), 3, 0, 255), drawn("int8", (3,), 4, -128, 127)
        own = Quantization.of(0.5, 0.25, 2, points=(120, 3, 100))
        self.add(name, "the twin: B for each column", "1 4 5", flags, a, b, own, requires)


# -- structures --------------------------------------------------------------------------------

FLAT = (
    *((17,), (31,), (4, 8), (33,), (7, 9), (8, 8), (5, 13), (2, 3, 4, 3), (95,), (2, 48), (97,)),
    *((2, 2, 2, 2, 2, 2, 2), (129,), (1, 3, 1, 2, 1, 2, 1, 3), (3, 64), (15, 17), (2, 4, 4, 8)),
    *((257,), (8, 48), (27, 19)),
)
CYCLE = 16  # pairs of a class
MOST = 7  # rows, and columns, of an outer call


def _structures(values: Values, number: int) -> Iterator[tuple[str, str, Tensor, Tensor]]:
    """Yield a class over and over in one of the sizes, then with a side repeated."""
    own, pairs = values.own, values.pairs[:CYCLE]
    sizes = FLAT[number * 5 % len(FLAT)]
    text = f"over and over in sizes {list(sizes)}"
    yield f"{prod(sizes)}", text, *_cycles(own, pairs, sizes)
    rows, columns = ([*dict.fromkeys(column)][:MOST] for column in zip(*pairs, strict=True))
    x, y = pairs[number % len(pairs)]
    count = 7 + number % 11
    if number % 3 == 0:
        a, _ = _tensors(own, [(i, 0) for i in rows], _alone(len(rows), number), ())
        _, b = _tensors(own, [(0, j) for j in columns], (), _alone(len(columns), number, True))
        yield "each-pair", "each of A with each of B", a, b
    elif number % 3 == 1:
        partners = [j for i, j in pairs if i == x] + columns
        chosen = [(x, partners[place % len(partners)]) for place in range(count)]
        yield "one-a", "one value of A", *_tensors(own, chosen, (1,), (count,))
    else:
        partners = [i for i, j in pairs if j == y] + rows
        chosen = [(partners[place % len(partners)], y) for place in range(count)]
        yield "one-b", "one value of B", *_tensors(own, chosen, (1, count), ())


def _alone(count: int, number: int, is_last: bool = False) -> Sizes:
    """Return sizes that have one axis for rows, or for columns, of ranks 2 to 8."""
    rank = 2 + number % 7
    place = rank - 1 if is_last else number % (rank - 1)
    return tuple(count if axis == place else 1 for axis in range(rank))


def _cycles(own: Quantization, pairs: Sequence[Pair], sizes: Sizes) -> tuple[Tensor, Tensor]:
    """Return the words of the pairs over and over."""
    columns = zip(*(own.words(pair) for pair in pairs), strict=True)
    a, b = (
        from_recipe(dtype, sizes, Cycle(words))
        for dtype, words in zip(own.dtypes, columns, strict=False)
    )
    return a, b


def _tensors(
    own: Quantization, chosen: Sequence[Pair], a: Sizes, b: Sizes
) -> tuple[Tensor, Tensor]:
    """Return the words of the pairs, as many of each side as it has sizes for."""
    found = [own.words(pair) for pair in chosen]
    return (
        ints(own.dtypes[0], a, [x for x, _ in found][: prod(a)]),
        ints(own.dtypes[1], b, [y for _, y in found][: prod(b)]),
    )


# -- near ties ---------------------------------------------------------------------------------


def near_ties(quotients: npt.NDArray[np.float64], count: int) -> list[Pair]:
    """Return differences whose quotients are nearest to a half, but not on it.

    The quotients are those of -127 to 127 by -127 to 127.
    """
    away = np.abs(np.abs(quotients - np.floor(quotients)) - 0.5)
    far = (away < 1e-9) | (np.abs(quotients) > 120)
    order = np.argsort(np.where(far, 1.0, away), axis=None, kind="stable")[:count]
    return [(int(place) // 255 - 127, int(place) % 255 - 127) for place in order]


DIFFERENCES = np.arange(-127, 128, dtype=np.float64)


def drawn_scale(draw: Draw, power: int) -> Fraction:
    """Return a scale of 24 bits, about 2**power."""
    return draw.odd(24) * Fraction(2) ** (power - 24)


MIDDLES = ((128, 0, 128), (-1, 0, -9), (127, 128, 3), (0, 128, -1))
MIXES = (
    ("uint8", "int8", "uint8"),
    ("int8", "int8", "int8"),
    ("uint8", "uint8", "int8"),
    ("int8", "uint8", "int8"),
)


def mixed(number: int, scales: Iterable[Fraction | float]) -> Quantization:
    """Return a quantization that holds differences from -127 to 127, of types in turn."""
    return Quantization.of(*scales, points=MIDDLES[number % 4], dtypes=MIXES[number % 4])


# -- shapes ------------------------------------------------------------------------------------

SHAPES: Mapping[str, tuple[Sizes, Sizes]] = {
    "one-with-vector": ((), (7,)),
    "vector-with-one": ((9,), (1,)),
    "column-with-row": ((3, 1), (1, 4)),
    "matrix-with-row": ((3, 4), (4,)),
    "row-with-matrix": ((4,), (3, 4)),
    "column-with-matrix": ((3, 1), (3, 4)),
    "square-with-row": ((3, 3), (3,)),
    "row-with-square": ((3,), (3, 3)),
    "cube-with-middle": ((3, 3, 3), (3, 1)),
    "middle-with-cube": ((1, 3, 1), (3, 3, 3)),
    "cube-with-square": ((3, 3, 3), (3, 3)),
    "cube-with-first": ((2, 3, 4), (2, 1, 1)),
    "channels": ((2, 3, 2, 2), (1, 3, 1, 1)),
    "batch": ((1, 3, 2, 2), (2, 3, 2, 2)),
    "both-of-rank-4": ((2, 1, 3, 1), (1, 2, 1, 4)),
    "both-of-rank-5": ((2, 1, 3, 1, 2), (2, 2, 1, 2, 1)),
    "both-of-rank-6": ((2, 1, 3, 1, 2, 1), (1, 2, 1, 2, 1, 2)),
    "last-of-rank-7": ((2, 1, 2, 2, 1, 2, 3), (3,)),
    "both-of-rank-7": ((2, 1, 2, 1, 2, 1, 3), (1, 2, 1, 2, 1, 2, 1)),
    "both-of-rank-8": ((2, 1, 2, 1, 2, 1, 2, 1), (1, 2, 1, 2, 1, 2, 1, 2)),
    "one-with-rank-8": ((1, 1), (1, 2, 1, 2, 1, 2, 1, 2)),
    "equal-hypercube": ((3, 3, 3, 3), (3, 3, 3, 3)),
    "equal-rank-8": ((1, 2, 1, 2, 1, 2, 1, 3), (1, 2, 1, 2, 1, 2, 1, 3)),
    "missing-sizes": ((1, 1, 2, 3), (2, 3)),
}


def add_shapes(topic: BinaryTopic) -> None:
    """Fill the file of shapes."""
    for number, (name, (one, two)) in enumerate(SHAPES.items()):
        own = mixed(number, (0.5, 0.25, 1.5))
        a, b = _all_of(own, 0, one, 30 + number), _all_of(own, 1, two, 60 + number)
        flags = "" if one == two else "Broadcast"
        text = f"A of sizes {list(one)}, B of sizes {list(two)}"
        topic.add(name, text, "1 5 6", flags, a, b, own)
    empty = (("empty", (0, 3), (3,)), ("empty-by-1", (2, 1), (1, 0)))
    for name, one, two in empty:
        a, b = ints("uint8", one, range(prod(one))), ints("int8", two, range(prod(two)))
        own, text = Quantization.of(1, 1, 1), f"A of sizes {list(one)}, B of sizes {list(two)}"
        topic.add(name, text, "5", "Empty", a, b, own, "sizes:zero", "matrix-with-row")


def _all_of(own: Quantization, side: int, sizes: Sizes, seed: int) -> Tensor:
    dtype = own.dtypes[side]
    return drawn(dtype, sizes, seed, DTYPES[dtype].low, DTYPES[dtype].high)


# -- calls that break a rule -------------------------------------------------------------------

TWO = {name: floats("float32", (2,), [0.5, 0.5]) for name in ("A", "B", "Output")}
WRONG_TYPES = {
    "int16-a": ("ATensor", ints("int16", (2, 3), range(6))),
    "float32-a": ("ATensor", floats("float32", (2, 3), range(6))),
    "int32-b": ("BTensor", ints("int32", (3,), range(3))),
    "float16-a-scale": ("AScaleTensor", floats("float16", (), [0.5])),
    "int32-b-scale": ("BScaleTensor", ints("int32", (), [1])),
    "float16-output-scale": ("OutputScaleTensor", floats("float16", (1,), [2])),
    "int8-a-zero-point": ("AZeroPointTensor", ints("int8", (1,), [120])),
    "uint8-b-zero-point": ("BZeroPointTensor", ints("uint8", (1,), [3])),
    "int32-b-zero-point": ("BZeroPointTensor", ints("int32", (1,), [3])),
    "int8-output-zero-point": ("OutputZeroPointTensor", ints("int8", (), [100])),
}
WRONG_SIZES = {
    "b-2-for-3": ("BTensor", ints("int8", (2,), [1, 2])),
    "b-3-rows-for-2": ("BTensor", ints("int8", (3, 3), range(9))),
    "b-transposed": ("BTensor", ints("int8", (3, 2), range(6))),
    "b-empty": ("BTensor", ints("int8", (0,), [])),
}
WRONG_PARAMETERS = {
    "a-scale-each-column": ("AScaleTensor", floats("float32", (3,), [0.5] * 3)),
    "b-scale-each-row": ("BScaleTensor", floats("float32", (2, 1), [0.25] * 2)),
    "output-scale-each": ("OutputScaleTensor", floats("float32", (2, 3), [2] * 6)),
    "a-zero-point-each-row": ("AZeroPointTensor", ints("uint8", (2, 1), [120] * 2)),
    "b-zero-point-each-column": ("BZeroPointTensor", ints("int8", (1, 3), [3] * 3)),
    "output-zero-point-each": ("OutputZeroPointTensor", ints("uint8", (3,), [100] * 3)),
    "output-zero-point-none": ("OutputZeroPointTensor", ints("uint8", (0,), [])),
}
NO_SCALES = {
    "zero": 0,
    "minus-zero": 1 << 31,
    "nan": 0x7FC00000,
    "infinity": 0xFF800000,
}


def add_invalid(topic: BinaryTopic) -> None:
    """Fill the file of calls that break one rule."""
    topic.add_twin("twin")
    clause, text = topic.clauses("4"), "{field} is {dtype}"
    topic.wrong("twin", "data_type", clause, text, WRONG_TYPES)
    for dtype in ("int16", "float32"):
        asked, text = {"OutputTensor": Request(dtype, (2, 3))}, f"an output of {dtype} is asked for"
        a, b = drawn("uint8", (2, 3), 3, 0, 255), drawn("int8", (2, 3), 4, -128, 127)
        base, own = f"twin-for-{dtype}", Quantization.of(0.5, 0.25, 2)
        topic.add(base, "the twin: no zero point", "4 8", "Optional", a, b, own)
        topic.invalid(f"{dtype}-output", text, clause, base, "data_type", asked)
    text = "B of sizes {sizes} and A of sizes [2, 3] do not repeat to each other"
    topic.wrong("twin", "sizes", topic.clauses("5"), text, WRONG_SIZES)
    text = "{field} of sizes {sizes} is not one value"
    topic.wrong("twin", "sizes", topic.clauses("6"), text, WRONG_PARAMETERS)
    topic.add_twin("twin-values", "values:known", "KnownValue")
    for label in ("A", "B", "Output"):
        for name, word in NO_SCALES.items():
            field, flags = f"{label}ScaleTensor", "Invalid KnownValue"
            changed, text = {field: ints("float32", (1,), [word])}, f"{field} is {name}"
            end, rule = f"{label.lower()}-scale-{name}", topic.clauses("7")
            topic.invalid(end, text, rule, "twin-values", "value", changed, flags, "values:known")


# -- pairs of options and size classes ---------------------------------------------------------

FACTORS: Factors = {
    "a": ("uint8", "int8"),
    "b": ("uint8", "int8"),
    "output": ("uint8", "int8"),
    "a zero point": ("absent", "one"),
    "b zero point": ("absent", "one"),
    "output zero point": ("absent", "one"),
    "repeats": ("none", "a", "b", "both"),
    "rank": ("1", "4", "8"),
    "elements": ("few", "64", "129"),
}
APART = apart("two sides that repeat need two axes", (("repeats", "both"), ("rank", "1")))
ELEMENTS = {
    "few": {"1": (6,), "4": (1, 3, 1, 2), "8": (1, 1, 3, 1, 1, 2, 1, 1)},
    "64": {"1": (64,), "4": (2, 4, 2, 4), "8": (1, 2, 2, 2, 1, 2, 2, 2)},
    "129": {"1": (129,), "4": (1, 3, 1, 43), "8": (1, 1, 3, 1, 1, 43, 1, 1)},
}


def add_pair(topic: BinaryTopic, name: str, text: str, options: Row, number: int) -> None:
    """Add the call of one row of options."""
    sizes = ELEMENTS[options["elements"]][options["rank"]]
    dtypes = tuple(options[name] for name in ("a", "b", "output"))
    kinds = (options[f"{name} zero point"] for name in ("a", "b", "output"))
    points = tuple(
        None if kind == "absent" else (number * 37 + place * 11) % 128
        for place, kind in enumerate(kinds)
    )
    own = Quantization.of(0.375, 0.25, 1.25, points=points, dtypes=dtypes)
    last = max(axis for axis, size in enumerate(sizes) if size > 1)
    first = min(axis for axis, size in enumerate(sizes) if size > 1)
    one, two = sizes, sizes
    if options["repeats"] in ("a", "both"):
        one = tuple(1 if axis == last else size for axis, size in enumerate(sizes))
    if options["repeats"] in ("b", "both"):
        two = tuple(1 if axis == first else size for axis, size in enumerate(sizes))
    a, b = _all_of(own, 0, one, 300 + number), _all_of(own, 1, two, 450 + number)
    if sum(b.words) < len(b.words) * (points[1] or 0):  # so that products are not all negative
        own = replace(own, scales=(own.scales[0], float32(Fraction(-1, 4)), own.scales[2]))
    topic.add(name, text, "1 4 5 8", "", a, b, own)


def add_size(topic: BinaryTopic, count: int, number: int) -> None:
    """Add so many elements; B is one value where there is no remainder of a block."""
    sizes, own = sizes_of(count), mixed(number, (0.5, -0.25, 1.5))
    a = repeat(_all_of(own, 0, (PERIOD,), 500 + number), sizes)
    b = _all_of(own, 1, (PERIOD,), 600 + number)
    b = Tensor(b.dtype, (), b.words[:1]) if number % 3 == 1 else repeat(b, sizes)
    base, text = f"elements-{count}", f"{count} elements in sizes {list(sizes)}"
    topic.add(base, text, "1 5", flags_of(count), a, b, own)
    if count in SHORT:
        cut = repeat(b, (*sizes[:-1], sizes[-1] - 1))
        text = f"B of sizes {list(cut.sizes)} does not repeat to {list(sizes)}"
        changed, clause = {"BTensor": cut}, topic.clauses("5")
        topic.invalid(f"b-short-{count}", text, clause, base, "sizes", changed)
