"""Planted bugs of CONVOLUTION_INTEGER."""

from collections.abc import Callable, Iterator

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.convolution import Sums, store_sums
from ...suite.bugs.descs import DescRules
from ...suite.bugs.permitted import PADDINGS, TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_output
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array
from .._shared.convolution_bugs import (
    ALIKE_TYPES,
    FILTER,
    FILTER_POINT,
    HALVES,
    IMAGE,
    IMAGE_POINT,
    LAYOUTS,
    NO_GROUPS,
    OUTPUT,
    WINDOWS,
    of_refusals,
    of_sums,
    roles,
)

OPERATOR = "convolution_integer"
RULES = Rules(
    OPERATOR,
    {"data_type": "CVI-4", "dimension_count": "CVI-1 CVI-7", "option": "CVI-3"}
    | {"sizes": "CVI-3 CVI-4 CVI-5", "missing_tensor": "CVI-1"},
    {
        "data_type": f"{IMAGE}:float32,complex64 {FILTER}:int32 {IMAGE_POINT}:int8 {FILTER_POINT}",
        "dimension_count": f"{IMAGE}:2,5 {FILTER}:3,5",
        "option": f"{WINDOWS} GroupCount",
        "sizes": f"{FILTER} GroupCount {IMAGE_POINT} {FILTER_POINT}",
    },
)
DESCS = DescRules(
    OPERATOR,
    {"intconv-group-count": NO_GROUPS},
    HALVES,
    {"DataType": ALIKE_TYPES, "DimensionCount": ((IMAGE, FILTER, OUTPUT),)},
)
CLAUSES = {
    "sum": "CVI-1",
    "padding": "CVI-2",
    "window": "CVI-3",
    "group": "CVI-3",
    "filter-point": "CVI-1 CVI-5",
    "absent": "CVI-1",
    "overflow": "CVI-6",
    "type": "CVI-4",
    "channels": "CVI-3",
    "zero-points": "CVI-5",
}

PARTS = {"sums": Sums(), "store": store_sums}
RESULT = "CVI-1"
PERMITTED = (("CVI-1", "sums", "total", TOTALS), ("CVI-1", "sums", "pad", PADDINGS))


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, roles(CLAUSES))
    points = {IMAGE_POINT: IMAGE, FILTER_POINT: FILTER}
    yield from zero_points(OPERATOR, CLAUSES["absent"], points)
    yield from outputs(OPERATOR, {OUTPUT: ("CVI-1", "CVI-1 CVI-3")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from of_sums(OPERATOR, CLAUSES)
    yield from of_refusals(OPERATOR, CLAUSES)
    yield from in_output(OPERATOR, "CVI-1", OUTPUT, {**LAYOUTS, **PRECISION})


PRECISION: dict[str, Callable[[Array, Case], Array]] = {
    "output-through-float32": lambda y, case: np.asarray(
        np.clip(y.astype(np.float32).astype(np.float64), -(2**31), 2**31 - 1).astype(np.int32)
    ),
}
