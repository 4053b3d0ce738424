"""Rules of CONVOLUTION_INTEGER, of calls and of descs, and its tensor support tables."""

from .._shared import convolution_rules as of_windows
from .._shared.desc_rules import Desc, Found, Violation, same_counts
from .._shared.tables import BYTES, Rows, Tables, row

CLAUSES = {
    "CVI-1": "The output is INT32: the sum of (input - zero point) * (filter - zero point).",
    "CVI-2": "A padded cell holds the input zero point, so that it contributes nothing.",
    "CVI-3": "Strides, dilations, padding and groups shape the windows.",
    "CVI-4": "Input and filter are INT8 or UINT8 independently; zero points match their tensor.",
    "CVI-5": "The filter zero point is one value or one for each output channel.",
    "CVI-6": "The page leaves overflow of the 32-bit sum open; here it wraps.",
    "CVI-7": "Input and filter have rank 4, or 3 from feature level 4.0.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {"CVI-1": "result", "CVI-2": "result", "CVI-6": "open"}


DESC_CLAUSES = {
    **of_windows.desc_clauses("InputZeroPointTensor FilterZeroPointTensor"),
    "same-dimension-count": "Filter and output have the DimensionCount of the input.",
    "zero-points-dimension-count": "Both zero points, if there, have the same DimensionCount.",
}
check = of_windows.check_sums
desc_sizes = of_windows.desc_sizes


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_counts("intconv", desc, "FilterTensor OutputTensor")
    one, two = desc["InputZeroPointTensor"], desc["FilterZeroPointTensor"]
    if one is not None and two is not None and one["DimensionCount"] != two["DimensionCount"]:
        rule = "intconv-zero-points-dimension-count"
        yield Violation(rule, "dimension_count", "FilterZeroPointTensor")
    yield from of_windows.check_convolution("intconv", desc)


def _integer(lowest: int, parameter: int) -> Rows:
    return (
        row("InputTensor", "input", lowest, 4, BYTES),
        row("InputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("FilterTensor", "input", lowest, 4, BYTES),
        row("FilterZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, "INT32"),
    )


TABLES: Tables = {"2_1": _integer(4, 4), "4_0": _integer(3, 1)}
