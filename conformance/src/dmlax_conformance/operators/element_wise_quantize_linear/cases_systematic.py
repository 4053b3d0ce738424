"""ELEMENT_WISE_QUANTIZE_LINEAR: every pair of options, and every size class."""

from collections.abc import Iterator

from .._shared import element_wise_systematic as systematic
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import add, operands
from .._shared.element_wise_systematic import APART, PARAMETERS
from .._shared.systematic import PERIOD, flags_of, pairs, repeat, size_classes, sizes_of
from ..topics import Topic, drawn, floats
from .cases import OPERATOR

FACTORS: Factors = {
    "input": ("float32", "float16", "int32"),
    "output": ("uint8", "int8"),
    "scale": PARAMETERS[1:],
    "zero point": PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129", "255"),
}


def topics() -> Iterator[Topic]:
    """Yield the files of this module."""
    yield from pairs(OPERATOR, FACTORS, APART, _pair)
    yield from size_classes(OPERATOR, _of_size)


def _pair(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    sizes = systematic.SHAPES[row["elements"]][row["rank"]]
    dtype = row["input"]
    whole = drawn("int32", sizes, 940 + number, -600, 600)
    x = whole if dtype == "int32" else floats(dtype, sizes, (word / 8 for word in whole.words))
    scale = systematic.scale(row["scale"], "float32" if dtype == "int32" else dtype, sizes)
    zero = systematic.zero_point(row["zero point"], row["output"], sizes, number)
    given = operands(x, scale, zero)
    add(topic, name, text, "QNT-1 QNT-4 QNT-5", given, row["output"])


def _of_size(topic: Topic, count: int, number: int) -> None:
    whole = drawn("int32", (PERIOD,), 680 + number, -600, 600)
    x = repeat(floats("float32", (PERIOD,), (w / 8 for w in whole.words)), sizes_of(count))
    dtype = ("uint8", "int8")[number % 2]
    zero = systematic.zero_point_of_size(dtype, count, 700 + number)
    given = operands(x, systematic.scale_of_size(count), zero)
    text = f"{count} elements in sizes {list(x.sizes)}"
    add(topic, f"elements-{count}", text, "QNT-1 QNT-5", given, dtype, flags_of(count))
    systematic.add_one_short(topic, count, given, "QNT-5")
