"""Rules of MAX_POOLING, of calls and of descs; the tables are those of its newest struct."""

from .._shared import pooling_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, Violation, same_counts, same_types
from .._shared.tables import BYTES, FLOATS, WHOLE, Rows, Tables, row

CLAUSES = {
    "MAX-1": "The result is the largest element of the window.",
    "MAX-2": "Padding never wins: a window wholly in it gives the lowest value of the data type.",
    "MAX-3": "Window, strides, dilations and padding of either side shape the windows: an axis has"
    " (padded - ((window - 1) * dilation + 1)) / stride + 1 of them, rounded down.",
    "MAX-4": "Input and output are both INT8 or both UINT8; in a desc floats and wider integers"
    " as well.",
    "MAX-5": "Input and output have rank 3, 4 or 5; DirectML's tables list 4 and 5.",
    "MAX-6": "No spatial axis is empty; without images the result is empty.",
    "MAX-7": "The indices, of descs alone, are the places in the whole input, of which the first of"
    " several with the largest element counts.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = dict.fromkeys(("MAX-1", "MAX-2", "MAX-7"), "result")


TYPES = {"OutputTensor": "InputTensor"}
DESC_CLAUSES = {
    **shared.WINDOW_CLAUSES,
    "output-data-type": "OutputTensor has the data type of InputTensor.",
    "same-dimension-count": "Input, output and indices have the same DimensionCount.",
    "indices-sizes": "OutputIndicesTensor has the sizes of OutputTensor.",
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check input and windows."""
    shared.check_image(inputs)
    shared.check_windows(attributes, inputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_counts("maxpool", desc, "OutputTensor OutputIndicesTensor")
    yield from same_types("maxpool", desc, TYPES)
    yield from shared.check_pool("maxpool", desc)
    one, two = desc["OutputTensor"], desc["OutputIndicesTensor"]
    if one is not None and two is not None and one["Sizes"] != two["Sizes"]:
        yield Violation("maxpool-indices-sizes", "sizes", "OutputIndicesTensor")


def _largest(data_types: str, indices: str = "UINT32") -> Rows:
    return (
        row("InputTensor", "input", 4, 5, data_types),
        row("OutputTensor", "output", 4, 5, data_types),
        row("OutputIndicesTensor", "optional output", 4, 5, indices),
    )


TABLES: Tables = {
    "2_1": _largest(FLOATS),
    "3_0": _largest(f"{FLOATS} {BYTES}"),
    "5_0": _largest(f"{FLOATS} {WHOLE} INT64 UINT64", "UINT32 UINT64"),
}
