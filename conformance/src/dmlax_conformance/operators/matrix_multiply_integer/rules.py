"""Rules of MATRIX_MULTIPLY_INTEGER, of calls and of descs, and its tensor support tables."""

from functools import partial

from .._shared import matmul_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found
from .._shared.matmul_rules import POINT_TYPES
from .._shared.tables import BYTES, Rows, Tables, row

CLAUSES = {
    "MMI-1": "The output is INT32: the sum of (a - zero point) * (b - zero point) over K.",
    "MMI-2": "A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.",
    "MMI-3": "An operand of rank 1 is one row of A, or one column of B, and its axis is not in the"
    " output.",
    "MMI-4": "A and B are INT8 or UINT8 independently; zero points match their tensor.",
    "MMI-5": "A zero point is one value, or {..., M, 1} for A, {N} or {..., 1, N} for B.",
    "MMI-6": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "MMI-7": "A missing zero point is 0, and a sum without products too.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {"MMI-1": "result", "MMI-6": "open", "MMI-7": "absent"}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands and zero points."""
    shared.check_operands(inputs)
    shared.check_parameters(inputs)


desc_sizes = partial(shared.desc_sizes, is_rank_shared=False)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    return shared.check_products("intmatmul", desc, POINT_TYPES)


def _integer(lowest: int, a_point: int, b_point: int) -> Rows:
    """Return the table whose lowest DimensionCounts are these; the highest is always 4."""
    return (
        row("ATensor", "input", lowest, 4, BYTES),
        row("AZeroPointTensor", "optional", a_point, 4, BYTES),
        row("BTensor", "input", lowest, 4, BYTES),
        row("BZeroPointTensor", "optional", b_point, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, "INT32"),
    )


TABLES: Tables = {"2_1": _integer(4, 4, 4), "4_0": _integer(2, 1, 2), "5_2": _integer(2, 1, 1)}
DESC_CLAUSES = shared.desc_clauses(TABLES["5_2"], POINT_TYPES)
