"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: every value class at every structure, in few calls."""

from fractions import Fraction

from .._shared.binary_cases import BinaryTopic
from .._shared.binary_covering import OTHER, QUARTERS, Family, add_covering
from ..topics import Files
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)
TINY = Fraction(2) ** -149
HALVES = (1, 3, -1, -3, 5, -5, 7, 11, 2, 0, 13)


def _plain(number: int, side: int) -> Family:
    """Return sums that are, with the other side's term, 7/4 of what changes."""
    return Family((1.75, 0.25, 1), OTHER, tuple(value - 1 for value in QUARTERS))


def _far(number: int, side: int) -> Family:
    return Family((2.0**20, 2.0**-9, 2.0**-12), OTHER, (1, -1, 0, 5, -9, 127, -126))


def _sticky(number: int, side: int) -> Family:
    """Return ties that a term 2^-149 decides."""
    return Family((0.5, (-1) ** number * TINY, 1), OTHER, HALVES)


for _name, _family in {"plain": _plain, "far": _far, "sticky": _sticky}.items():
    topics.file(f"covering-{_name}")(add_covering(_name, _family))
