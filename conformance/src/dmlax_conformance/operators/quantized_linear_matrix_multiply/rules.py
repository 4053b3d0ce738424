"""Rules of QUANTIZED_LINEAR_MATRIX_MULTIPLY, of calls and descs, and its tensor support tables."""

from .._shared import call_rules as calls
from .._shared import matmul_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found
from .._shared.matmul_rules import POINT_TYPES, desc_sizes
from .._shared.tables import BYTES, Rows, Tables, row

__all__ = ["CLAUSES", "DESC_CLAUSES", "TABLES", "UNBREAKABLE", "check", "check_desc", "desc_sizes"]

CLAUSES = {
    "QMM-1": "The result equals dequantizing, multiplying and quantizing in real arithmetic.",
    "QMM-2": "The sum is of (a - zero point) * (b - zero point) over K.",
    "QMM-3": "A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.",
    "QMM-4": "An operand of rank 1 is one row of A, or one column of B, and its axis is not in the"
    " output.",
    "QMM-5": "The quotient is rounded to nearest, ties to even, before the zero point is added.",
    "QMM-6": "The result is clamped to the full range of the output data type.",
    "QMM-7": "Scale and zero point are, each on its own, one value, or {..., M, 1} for A and the"
    " output, {N} or {..., 1, N} for B.",
    "QMM-8": "A, B and output are INT8 or UINT8 independently; a zero point has the data type of"
    " its tensor; scales are FLOAT32.",
    "QMM-9": "A bias, which the page does not have, is INT32 and repeats to the output; it is added"
    " to the sum, and nothing wraps there.",
    "QMM-10": "A missing zero point is 0, and a missing bias or a sum without products adds"
    " nothing.",
    "QMM-11": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "QMM-12": "A scale is finite and not zero; its sign and size are free.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {
    **dict.fromkeys(("QMM-1", "QMM-2", "QMM-5", "QMM-6"), "result"),
    "QMM-10": "absent",
    "QMM-11": "open",
}
SCALES = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands, then scales, bias and output."""
    shared.check_operands(inputs)
    for name in SCALES:
        calls.data_type(inputs, name, ("float32",))
    calls.need(outputs["OutputTensor"].dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    calls.same_data_type(inputs, "OutputZeroPointTensor", outputs["OutputTensor"].dtype)
    shared.check_bias(inputs, "int32")
    shared.check_parameters(inputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from shared.check_products("qmatmul", desc, POINT_TYPES)
    yield from shared.same_parameter_counts("qmatmul", desc)


def _quantized(lowest: int, parameter: int) -> Rows:
    """Return the table whose lowest DimensionCounts are these; the highest is always 4."""
    return (
        row("ATensor", "input", lowest, 4, BYTES),
        row("AScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("AZeroPointTensor", "optional", parameter, 4, BYTES),
        row("BTensor", "input", lowest, 4, BYTES),
        row("BScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("BZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("OutputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, BYTES),
    )


TABLES: Tables = {"2_1": _quantized(4, 4), "4_0": _quantized(2, 1)}
DESC_CLAUSES = {
    **shared.desc_clauses(TABLES["4_0"], POINT_TYPES),
    "parameters-dimension-count": "All scales and zero points have the same DimensionCount.",
}
