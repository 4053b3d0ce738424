"""ELEMENT_WISE_DEQUANTIZE_LINEAR: every pair of options, and every size class."""

from ...format.tensors import DTYPES
from .._shared import element_wise_cases as shared
from .._shared.covering import Factors, Row
from .._shared.element_wise_cases import APART, PARAMETERS, ElementWiseTopic
from .._shared.systematic import PERIOD, Systematic, repeat, sizes_of
from ..topics import drawn
from .cases import OPERATOR

FACTORS: Factors = {
    "input": ("int8", "uint8", "int16", "uint16", "int32", "uint32"),
    "output": ("float32", "float16"),
    "scale": PARAMETERS[1:],
    "zero point": PARAMETERS,
    "rank": ("1", "2", "4"),
    "elements": ("few", "129"),
}


def _pair(topic: ElementWiseTopic, name: str, text: str, row: Row, number: int) -> None:
    sizes, dtype = shared.SIZES[row["elements"]][row["rank"]], row["input"]
    x = drawn(dtype, sizes, 930 + number, DTYPES[dtype].low, DTYPES[dtype].high)
    own = shared.parameters(row, row["output"], dtype, number)
    topic.add(name, text, "DQT-1 DQT-2 DQT-3 DQT-4", row["output"], "", x, *own)


def _of_size(topic: ElementWiseTopic, count: int, number: int) -> None:
    dtype = ("uint8", "int8", "int16", "uint16")[number % 4]
    x = repeat(drawn(dtype, (PERIOD,), 720 + number, 0, 127), sizes_of(count))
    topic.add_size(count, x, "float32", (dtype, 740 + number), ("DQT-1 DQT-4", "DQT-4"))


topics = Systematic(OPERATOR, ElementWiseTopic, FACTORS, APART, _pair, _of_size)
