"""Planted bugs of MATRIX_MULTIPLY_INTEGER."""

from collections.abc import Iterator

from ...suite.bugs.descs import DescRules
from ...suite.bugs.matmul import Products, StoreSums
from ...suite.bugs.permitted import TOTALS
from ...suite.bugs.readings import outputs, readings, zero_points
from ...suite.bugs.record import Bug
from ...suite.bugs.refusals import Rules
from .._shared import matmul_bugs as shared
from .._shared.matmul_bugs import A_POINT, B_POINT, OUTPUT, A, B
from .._shared.matmul_descs import HALVES

OPERATOR = "matrix_multiply_integer"
RULES = Rules(
    OPERATOR,
    {"data_type": "MMI-4", "dimension_count": "MMI-3", "sizes": "MMI-2 MMI-5"}
    | {"missing_tensor": "MMI-7"},
    {
        "data_type": f"{A}:float32,int16,complex64 {B}:int32,float16 {A_POINT} {B_POINT}",
        "dimension_count": f"{A}:0 {B}:0",
        "sizes": f"{B} {A_POINT} {B_POINT}",
    },
)
DESCS = DescRules(
    OPERATOR,
    {},
    HALVES,
    {"DataType": ((A, A_POINT), (B, B_POINT)), "DimensionCount": ((A, B, OUTPUT),)},
)
CLAUSES = {
    "sum": "MMI-1",
    "shape": "MMI-2",
    "rank": "MMI-3",
    "type": "MMI-1 MMI-4",
    "points": "MMI-5",
    "overflow": "MMI-6",
}

PARTS = {"sums": Products(), "store": StoreSums()}
RESULT = "MMI-1"
PERMITTED = (("MMI-1", "sums", "total", TOTALS),)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from readings(OPERATOR, shared.roles(CLAUSES))
    yield from zero_points(OPERATOR, "MMI-7", {A_POINT: A, B_POINT: B})
    yield from outputs(OPERATOR, {OUTPUT: ("MMI-1", "MMI-1 MMI-2")})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_every(OPERATOR, CLAUSES)
