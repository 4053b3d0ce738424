"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: every value class at every structure, in few calls."""

from .._shared.binary_cases import BinaryTopic
from .._shared.binary_covering import SUMS, add_covering, add_repeated, sums
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)

for _name in SUMS:
    topics.file(f"covering-{_name}")(add_covering(_name, sums(_name)))
topics.file("covering-repeated")(add_repeated(0.5, 0.25, 0.5))
