"""CONVOLUTION_INTEGER: every pair of options, and every size class."""

from .._shared import convolution_cases as shared
from .._shared.convolution_cases import ConvolutionTopic
from .._shared.covering import Apart, Row
from .._shared.systematic import Systematic, flags_of
from .cases import OPERATOR

FACTORS = shared.FACTORS
APART: Apart = {}


def _pair(topic: ConvolutionTopic, name: str, text: str, row: Row, number: int) -> None:
    x, w = shared.operands(row, number)
    own, options = shared.points(row, w.sizes[0]), shared.window(row)
    topic.add(name, text, "CVI-1 CVI-3 CVI-4", x, w, own, options=options)


def _of_size(topic: ConvolutionTopic, count: int, number: int) -> None:
    own, clauses = {"zx": [5 + number], "zw": [number - 7]}, ("CVI-1 CVI-3", "CVI-3")
    topic.add_size(count, 600 + 2 * number, own, clauses, flags_of(count))


topics = Systematic(OPERATOR, ConvolutionTopic, FACTORS, APART, _pair, _of_size)
