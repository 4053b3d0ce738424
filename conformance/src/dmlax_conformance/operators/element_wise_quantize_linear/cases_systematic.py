"""ELEMENT_WISE_QUANTIZE_LINEAR: every pair of options, and every size class."""

from .._shared import element_wise_cases as shared
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import APART, PARAMETERS, ElementWiseTopic
from .._shared.systematic import PERIOD, Systematic, repeat, sizes_of
from ..topics import drawn, floats
from .cases import OPERATOR

FACTORS: Factors = {
    "input": ("float32", "float16", "int32"),
    "output": ("uint8", "int8"),
    "scale": PARAMETERS[1:],
    "zero point": PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129", "255"),
}


def _pair(topic: ElementWiseTopic, name: str, text: str, row: Row, number: int) -> None:
    sizes, dtype = shared.SIZES[row["elements"]][row["rank"]], row["input"]
    x, scale = drawn("int32", sizes, 940 + number, -600, 600), "float32"
    if dtype != "int32":
        x, scale = floats(dtype, sizes, (word / 8 for word in x.words)), dtype
    own = shared.parameters(row, scale, row["output"], number)
    topic.add(name, text, "QNT-1 QNT-4 QNT-5", row["output"], "", x, *own)


def _of_size(topic: ElementWiseTopic, count: int, number: int) -> None:
    whole = drawn("int32", (PERIOD,), 680 + number, -600, 600)
    x = repeat(floats("float32", (PERIOD,), (w / 8 for w in whole.words)), sizes_of(count))
    dtype, clauses = ("uint8", "int8")[number % 2], ("QNT-1 QNT-5", "QNT-5")
    topic.add_size(count, x, dtype, (dtype, 700 + number), clauses)


topics = Systematic(OPERATOR, ElementWiseTopic, FACTORS, APART, _pair, _of_size)
