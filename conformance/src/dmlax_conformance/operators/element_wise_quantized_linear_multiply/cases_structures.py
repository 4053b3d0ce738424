"""ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY: classes of values past powers of two."""

from .._shared import binary_cases
from .._shared.binary_cases import BinaryTopic
from ..topics import Files
from . import cases
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)


@topics.file("structures")
def _structures(topic: BinaryTopic) -> None:
    classes = {
        "ties": cases.ties(),
        "saturation": cases.saturation(),
        "float32": cases.near_float32(),
        "float64": cases.near_float64(),
    }
    binary_cases.add_structures(topic, classes)
