"""Planted bugs of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from collections.abc import Iterator

from ...suite.bugs.binary import Binary, exact_sum
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.record import Bug
from .._shared import binary_bugs as shared
from .._shared.binary_bugs import PART
from .._shared.sum_bugs import FORMULAS, WAYS, ZERO_POINT_FIRST, in_integers

OPERATOR = "element_wise_quantized_linear_add"
ROOM = shared.Room(OPERATOR, "ADD", exact_sum)
RULES, DESCS, RESULT = ROOM.rules, ROOM.descs("qadd"), "ADD-1"
PARTS = {PART: Binary(exact_sum)}
PERMITTED = (
    ("ADD-2", PART, "rounding", ROUNDINGS),
    ("ADD-1", PART, "quotient", {"integer-sum": in_integers}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from ROOM.derived()


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from ROOM.written({**FORMULAS, **WAYS}, ZERO_POINT_FIRST)
