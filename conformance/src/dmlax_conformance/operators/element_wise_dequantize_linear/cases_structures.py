"""ELEMENT_WISE_DEQUANTIZE_LINEAR: parameters along an axis of inputs whose axes are equal."""

from .._shared import element_wise_cases as shared
from .._shared.element_wise_cases import ElementWiseTopic
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, ElementWiseTopic)


@topics.file("equal-axes")
def _equal_axes(topic: ElementWiseTopic) -> None:
    shared.add_equal_axes(topic, "DQT-1 DQT-4", "int8", "float32")
