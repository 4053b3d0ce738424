"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: classes of values past powers of two."""

from .._shared import binary_cases, sum_values
from .._shared.binary_cases import BinaryTopic
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)


@topics.file("structures")
def _structures(topic: BinaryTopic) -> None:
    classes = {
        "ties": sum_values.ties(),
        "saturation": sum_values.saturation(),
        "float32": sum_values.near_float32(),
        "float64": sum_values.near_float64(),
    }
    binary_cases.add_structures(topic, classes)
