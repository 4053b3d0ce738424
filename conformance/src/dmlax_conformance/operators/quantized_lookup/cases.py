"""QUANTIZED_LOOKUP."""

from collections.abc import Mapping
from itertools import product

from ...format.tensors import DTYPES, Tensor
from ...format.vectors import Request
from .._shared.covering import Apart, Factors, Row
from .._shared.systematic import PERIOD, SHORT, each_pair, each_size, flags_of, repeat, sizes_of
from ..topics import Files, Topic, drawn, floats, ints

OPERATOR = "quantized_lookup"
EIGHT_BIT = ("uint8", "int8")


class LookupTopic(Topic):
    """One file of calls."""

    def add(
        self,
        name: str,
        text: str,
        clause: str,
        flags: str,
        x: Tensor,
        table: Tensor,
        requires: str = "",
        paired_with: str | None = None,
    ) -> None:
        """Add a valid call."""
        given, asked = {"InputTensor": x, "TableTensor": table}, Request(table.dtype, x.sizes)
        outputs = {"OutputTensor": asked}
        self.valid(
            name, text, clause, given, outputs, None, flags, requires, paired_with=paired_with
        )


topics = Files(OPERATOR, LookupTopic)


def table(dtype: str, seed: int) -> Tensor:
    """Return a drawn table."""
    return drawn(dtype, (256,), seed, DTYPES[dtype].low, DTYPES[dtype].high)


def image(dtype: str, sizes: tuple[int, ...], seed: int) -> Tensor:
    """Return a drawn input."""
    return drawn(dtype, sizes, seed, DTYPES[dtype].low, DTYPES[dtype].high)


@topics.file("tables")
def _tables(topic: LookupTopic) -> None:
    for number, (source, result) in enumerate(product(EIGHT_BIT, repeat=2)):
        low, high = DTYPES[source].low, DTYPES[source].high
        every = ints(source, (16, 16), range(low, high + 1))
        text = f"every {source}, and a table of {result} in no order"
        topic.add(
            f"every-{source}-{result}", text, "LUT-1 LUT-2", "", every, table(result, 5 + number)
        )
        ends = ints(source, (6,), (low, high, 0, high // 2 + 1 if low == 0 else -1, low + 1, 1))
        lowest = DTYPES[result].low
        rising = ints(result, (256,), range(lowest, lowest + 256))
        text, flags = f"the ends of {source}, and a table of {result} that rises", "Extreme"
        topic.add(f"ends-{source}-{result}", text, "LUT-1 LUT-2", flags, ends, rising)


SHAPES: Mapping[str, tuple[int, ...]] = {
    "rank-0": (),
    "one": (1,),
    "rank-2": (3, 5),
    "rank-3": (3, 3, 3),
    "rank-4": (3, 3, 3, 3),
    "rank-5": (2, 1, 3, 1, 2),
    "rank-6": (1, 2, 1, 2, 1, 3),
    "rank-7": (2, 1, 2, 1, 2, 1, 2),
    "rank-8": (1, 2, 1, 2, 1, 2, 1, 3),
    **{f"elements-{count}": (count,) for count in (7, 8, 9, 15, 17, 31, 33, 63, 64, 65)},
}


@topics.file("shapes")
def _shapes(topic: LookupTopic) -> None:
    for number, (name, sizes) in enumerate(SHAPES.items()):
        source, result = EIGHT_BIT[number % 2], EIGHT_BIT[number // 2 % 2]
        x, text = image(source, sizes, 20 + number), f"an input of sizes {list(sizes)}"
        topic.add(name, text, "LUT-4 LUT-5", "", x, table(result, 40 + number))
    x, text = ints("uint8", (0, 3), []), "an input without elements"
    topic.add("empty", text, "LUT-4", "Empty", x, table("int8", 9), "sizes:zero", "rank-2")


WRONG: Mapping[str, tuple[str, Tensor]] = {
    "int16-input": ("InputTensor", ints("int16", (3,), [1, 2, 3])),
    "int32-input": ("InputTensor", ints("int32", (3,), [1, 2, 3])),
    "float32-input": ("InputTensor", floats("float32", (3,), [1, 2, 3])),
    "int16-table": ("TableTensor", ints("int16", (256,), range(256))),
    "float32-table": ("TableTensor", floats("float32", (256,), range(256))),
    "table-255": ("TableTensor", ints("uint8", (255,), range(255))),
    "table-257": ("TableTensor", ints("uint8", (257,), [*range(256), 7])),
    "table-128": ("TableTensor", ints("uint8", (128,), range(128))),
    "table-1": ("TableTensor", ints("uint8", (1,), [7])),
    "table-rank-2": ("TableTensor", ints("uint8", (1, 256), range(256))),
    "table-16x16": ("TableTensor", ints("uint8", (16, 16), range(256))),
    "table-rank-0": ("TableTensor", ints("uint8", (), [7])),
}


@topics.file("invalid")
def _invalid(topic: LookupTopic) -> None:
    text = "the twin: three bytes"
    topic.add("twin", text, "LUT-1 LUT-3", "", ints("uint8", (3,), [1, 2, 3]), table("uint8", 3))
    for names, code, clause, text in (
        ("int16-input int32-input float32-input", "data_type", "LUT-2", "{field} is {dtype}"),
        ("int16-table float32-table", "data_type", "LUT-2", "{field} is {dtype}"),
        ("table-255 table-257 table-128 table-1", "sizes", "LUT-3", "{field} has sizes {sizes}"),
        (
            "table-rank-2 table-16x16 table-rank-0",
            "dimension_count",
            "LUT-3",
            "{field} has rank {rank}",
        ),
    ):
        topic.wrong("twin", code, clause, text, WRONG, names)


FACTORS: Factors = {
    "input": EIGHT_BIT,
    "output": EIGHT_BIT,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129", "255"),
}
APART: Apart = {}
SIZES = {
    "few": {"1": (6,), "2": (2, 3), "4": (1, 3, 1, 2)},
    "129": {"1": (129,), "2": (3, 43), "4": (1, 3, 1, 43)},
    "255": {"1": (255,), "2": (15, 17), "4": (5, 1, 3, 17)},
}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: LookupTopic, name: str, text: str, options: Row, number: int) -> None:
    x = image(options["input"], SIZES[options["elements"]][options["rank"]], 70 + number)
    topic.add(name, text, "LUT-1 LUT-2 LUT-4", "", x, table(options["output"], 90 + number))


@topics.file("size-classes")
@each_size
def _of_size(topic: LookupTopic, count: int, number: int) -> None:
    source, result, sizes = EIGHT_BIT[number % 2], EIGHT_BIT[number // 2 % 2], sizes_of(count)
    x = repeat(image(source, (PERIOD,), 120 + number), sizes)
    base, text = f"elements-{count}", f"{count} elements in sizes {list(sizes)}"
    topic.add(base, text, "LUT-1 LUT-4", flags_of(count), x, table(result, 140 + number))
    if count in SHORT:
        short = ints(result, (255,), range(DTYPES[result].low, DTYPES[result].low + 255))
        text = "TableTensor has 255 entries"
        topic.invalid(f"short-{count}", text, "LUT-3", base, "sizes", {"TableTensor": short})
