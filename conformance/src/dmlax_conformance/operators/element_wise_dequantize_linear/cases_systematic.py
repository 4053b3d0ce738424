"""ELEMENT_WISE_DEQUANTIZE_LINEAR: every pair of options, and every size class."""

from collections.abc import Iterator

from ...format.tensors import DTYPES
from .._shared import element_wise_systematic as systematic
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import add, operands
from .._shared.element_wise_systematic import APART, PARAMETERS
from .._shared.systematic import PERIOD, flags_of, pairs, repeat, size_classes, sizes_of
from ..topics import Topic, drawn
from .cases import OPERATOR

FACTORS: Factors = {
    "input": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
    "output": ("float32", "float16"),
    "scale": PARAMETERS[1:],
    "zero point": PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129"),
}


def topics() -> Iterator[Topic]:
    """Yield the files of this module."""
    yield from pairs(OPERATOR, FACTORS, APART, _pair)
    yield from size_classes(OPERATOR, _of_size)


def _pair(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    sizes, dtype = systematic.SHAPES[row["elements"]][row["rank"]], row["input"]
    x = drawn(dtype, sizes, 930 + number, DTYPES[dtype].low, DTYPES[dtype].high)
    zero = systematic.zero_point(row["zero point"], dtype, sizes, number)
    given = operands(x, systematic.scale(row["scale"], row["output"], sizes), zero)
    add(topic, name, text, "DQT-1 DQT-2 DQT-3 DQT-4", given, row["output"])


def _of_size(topic: Topic, count: int, number: int) -> None:
    dtype = ("uint8", "int8", "int16", "uint16")[number % 4]
    x = repeat(drawn(dtype, (PERIOD,), 720 + number, 0, 127), sizes_of(count))
    zero = systematic.zero_point_of_size(dtype, count, 740 + number)
    given = operands(x, systematic.scale_of_size(count), zero)
    text = f"{count} elements in sizes {list(x.sizes)}"
    add(topic, f"elements-{count}", text, "DQT-1 DQT-4", given, "float32", flags_of(count))
    systematic.add_one_short(topic, count, given, "DQT-4")
