"""ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY: every value class at every structure, in few calls."""

from functools import cache
from operator import mul

from .._shared.binary_cases import BinaryTopic, Pair
from .._shared.binary_covering import OTHER, QUARTERS, Family, add_covering, misleading, near_tie
from ..topics import Files
from . import cases
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)


def _plain(number: int, side: int) -> Family:
    """Return products that are 7/4 of what changes."""
    return Family((0.5, 0.5, 1), OTHER, QUARTERS)


def _far(number: int, side: int) -> Family:
    return Family((2.0**20, 2.0**-2, 2.0**-12), OTHER, (1, -1, 0, 5, -9, 127, -126))


def _near(number: int, side: int) -> Family:
    return near_tie(_near_ties(), number, side)


@cache
def _near_ties() -> list[tuple[tuple[int, ...], Pair]]:
    return misleading(cases.near_float64(), mul, "float64")


for _name, _family in {"plain": _plain, "far": _far, "near": _near}.items():
    topics.file(f"covering-{_name}")(add_covering(_name, _family))
