"""Planted bugs of CONVOLUTION_INTEGER."""

from collections.abc import Iterator

import numpy as np

from ...suite.bugs.convolution import Sums, store_sums
from ...suite.bugs.descs import DescRules
from ...suite.bugs.permitted import PADDINGS, TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug, in_output
from ...suite.bugs.refusals import Rules
from ...suite.bugs.steps import Array
from .._shared import convolution_bugs as shared
from .._shared.convolution_bugs import FILTER, FILTER_POINT, IMAGE, IMAGE_POINT, OUTPUT

OPERATOR = "convolution_integer"
RULES = Rules(
    OPERATOR,
    {"data_type": "CVI-4", "dimension_count": "CVI-1 CVI-7", "option": "CVI-3"}
    | {"sizes": "CVI-3 CVI-4 CVI-5", "missing_tensor": "CVI-1"},
    {
        "data_type": f"{IMAGE}:float32,complex64 {FILTER}:int32 {IMAGE_POINT}:int8 {FILTER_POINT}",
        "dimension_count": f"{IMAGE}:2,5 {FILTER}:3,5",
        "option": f"{shared.WINDOWS} GroupCount",
        "sizes": f"{FILTER} GroupCount {IMAGE_POINT} {FILTER_POINT}",
    },
)
DESCS = DescRules(
    OPERATOR,
    {"intconv-group-count": shared.NO_GROUPS},
    shared.HALVES,
    {"DataType": shared.ALIKE_TYPES, "DimensionCount": ((IMAGE, FILTER, OUTPUT),)},
)
CLAUSES = {
    "sum": "CVI-1",
    "padding": "CVI-2",
    "window": "CVI-3",
    "group": "CVI-3",
    "channels": "CVI-3",
    "type": "CVI-4",
    "filter-point": "CVI-1 CVI-5",
    "zero-points": "CVI-5",
    "overflow": "CVI-6",
}

PARTS = {"sums": Sums(), "store": store_sums}
RESULT = "CVI-1"
PERMITTED = (("CVI-1", "sums", "total", TOTALS), ("CVI-1", "sums", "pad", PADDINGS))


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, shared.roles(CLAUSES))
    yield from zero_points(OPERATOR, "CVI-1", {IMAGE_POINT: IMAGE, FILTER_POINT: FILTER})
    yield from outputs(OPERATOR, {OUTPUT: ("CVI-1", "CVI-1 CVI-3")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_both(OPERATOR, CLAUSES)
    through = {"output-through-float32": lambda y, case: _through_float32(y)}
    yield from in_output(OPERATOR, "CVI-1", OUTPUT, {**shared.LAYOUTS, **through})


def _through_float32(y: Array) -> Array:
    kept = np.clip(y.astype(np.float32).astype(np.float64), -(2**31), 2**31 - 1)
    return np.asarray(kept.astype(np.int32))
