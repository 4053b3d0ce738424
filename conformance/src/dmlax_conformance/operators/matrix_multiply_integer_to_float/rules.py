"""Rules of MATRIX_MULTIPLY_INTEGER_TO_FLOAT, of calls and descs, and its tensor support table."""

from .._shared import call_rules as calls
from .._shared import matmul_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, Violation, differing
from .._shared.matmul_rules import desc_sizes
from .._shared.tables import FLOATS, WHOLE, Tables, row

__all__ = ["CLAUSES", "DESC_CLAUSES", "TABLES", "UNBREAKABLE", "check", "check_desc", "desc_sizes"]

CLAUSES = {
    "MMF-1": "The result is sum * scale of A * scale of B + bias in real arithmetic, rounded once,"
    " to nearest, ties to even; too large a result is an infinity.",
    "MMF-2": "The sum is of (a - zero point) * (b - zero point) over K.",
    "MMF-3": "A is {..., M, K} and B {..., K, N}; their other sizes repeat to each other.",
    "MMF-4": "An operand of rank 1 is one row of A, or one column of B, and its axis is not in the"
    " output.",
    "MMF-5": "Scale and zero point are, each on its own, one value, or {..., M, 1} for A, {N} or"
    " {..., 1, N} for B.",
    "MMF-6": "A and B are INT8 or UINT8 independently; a zero point has the data type of its"
    " tensor; scales are FLOAT32; the output is FLOAT32 or FLOAT16, and so is the bias.",
    "MMF-7": "A bias repeats to the output; its NaN and infinities pass through.",
    "MMF-8": "A result of zero is plus zero.",
    "MMF-9": "A missing zero point is 0, and a missing bias or a sum without products adds"
    " nothing.",
    "MMF-10": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "MMF-11": "A scale is finite and not zero; its sign and size are free.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {
    **dict.fromkeys(("MMF-1", "MMF-2", "MMF-8"), "result"),
    "MMF-9": "absent",
    "MMF-10": "open",
}
TYPES = {
    "BTensor": "ATensor",
    "AZeroPointTensor": "ATensor",
    "BZeroPointTensor": "BTensor",
    "BScaleTensor": "AScaleTensor",
    "BiasTensor": "AScaleTensor",
    "OutputTensor": "AScaleTensor",
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check operands, then scales, bias and output."""
    shared.check_operands(inputs)
    for name in ("AScaleTensor", "BScaleTensor"):
        calls.data_type(inputs, name, ("float32",))
    dtype = outputs["OutputTensor"].dtype
    calls.need(dtype in ("float32", "float16"), "data_type", "OutputTensor")
    shared.check_bias(inputs, dtype)
    shared.check_parameters(inputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from shared.check_products("floatmatmul", desc, TYPES)
    yield from shared.same_parameter_counts("floatmatmul", desc)
    one, two = desc["BiasTensor"], desc["OutputTensor"]
    if one is not None and two is not None and len(one["Sizes"]) == len(two["Sizes"]):
        for name in differing(desc, "BiasTensor", "Sizes", "OutputTensor"):
            yield Violation("floatmatmul-bias-sizes", "sizes", name)


TABLES: Tables = {
    "6_2": (
        row("ATensor", "input", 2, 4, WHOLE),
        row("AScaleTensor", "input", 1, 4, FLOATS),
        row("AZeroPointTensor", "optional", 1, 4, WHOLE),
        row("BTensor", "input", 2, 4, WHOLE),
        row("BScaleTensor", "input", 1, 4, FLOATS),
        row("BZeroPointTensor", "optional", 1, 4, WHOLE),
        row("BiasTensor", "optional", 2, 4, FLOATS),
        row("OutputTensor", "output", 2, 4, FLOATS),
    )
}
DESC_CLAUSES = {
    **shared.desc_clauses(TABLES["6_2"], TYPES),
    "parameters-dimension-count": "All scales and zero points have the same DimensionCount.",
    "bias-sizes": "BiasTensor has the sizes of the output.",
}
