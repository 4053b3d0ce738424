"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from .._shared import binary_cases as shared
from .._shared import sum_values
from .._shared.binary_cases import BinaryTopic
from .._shared.systematic import each_pair, each_size
from ..topics import Files

OPERATOR = "element_wise_quantized_linear_add"
topics = Files(OPERATOR, BinaryTopic)
FACTORS, APART = shared.FACTORS, shared.APART


@topics.file("rounding")
def _rounding(topic: BinaryTopic) -> None:
    topic.add_values(sum_values.ties())


@topics.file("saturation")
def _saturation(topic: BinaryTopic) -> None:
    topic.add_values(sum_values.saturation())


@topics.file("sticky")
def _sticky(topic: BinaryTopic) -> None:
    """Put ties into one term, and the other far below."""
    topic.add_values(sum_values.far_apart())


@topics.file("cancellation")
def _cancellation(topic: BinaryTopic) -> None:
    topic.add_values(sum_values.cancelling())


@topics.file("scales")
def _scales(topic: BinaryTopic) -> None:
    topic.add_values(sum_values.signs())


topics.file("shapes")(shared.add_shapes)
topics.file("invalid")(shared.add_invalid)
topics.file("pairs")(each_pair(FACTORS, APART)(shared.add_pair))
topics.file("size-classes")(each_size(shared.add_size))
