"""Rules of DYNAMIC_QUANTIZE_LINEAR, of calls and of descs, and its tensor support table."""

from .._shared import call_rules as calls
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import (
    Desc,
    Found,
    Violation,
    all_ones,
    differing,
    same_counts,
    same_types,
    type_clauses,
)
from .._shared.tables import BYTES, FLOATS, Tables, row

CLAUSES = {
    "DYN-1": "The range is from the least element to the largest, and includes 0.",
    "DYN-2": "The scale is the length of the range over 255, rounded once to FLOAT32.",
    "DYN-3": "A scale that would be 0 is 1.",
    "DYN-4": "The zero point is clamp(round(lowest value of the output - least / scale)), with the"
    " rounded scale; ties to even.",
    "DYN-5": "The output is clamp(round(input / scale) + zero point); ties to even.",
    "DYN-6": "The input is FLOAT32 or FLOAT16, the output INT8 or UINT8, the scale FLOAT32; the"
    " zero point has the data type of the output.",
    "DYN-7": "A NaN or an infinity leaves all three outputs open, which the page does not mention.",
    "DYN-8": "There is one scale and one zero point for the whole input.",
}
UNBREAKABLE = {
    **dict.fromkeys(("DYN-1", "DYN-2", "DYN-3", "DYN-4", "DYN-5", "DYN-8"), "result"),
    "DYN-7": "open",
}

OTHERS = "OutputTensor OutputScaleTensor OutputZeroPointTensor"
TYPES = {"OutputZeroPointTensor": "OutputTensor"}
DESC_CLAUSES = {
    **type_clauses(TYPES),
    "same-dimension-count": "The outputs have the DimensionCount of the input.",
    "same-sizes": "OutputTensor has the Sizes of the input.",
    "output-scale-one": "OutputScaleTensor has only sizes of 1.",
    "output-zero-point-one": "OutputZeroPointTensor has only sizes of 1.",
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check both data types."""
    calls.data_type(inputs, "InputTensor", ("float32", "float16"))
    calls.need(outputs["OutputTensor"].dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_types("dynamic", desc, TYPES)
    yield from same_counts("dynamic", desc, OTHERS)
    for name in differing(desc, "OutputTensor", "Sizes"):
        yield Violation("dynamic-same-sizes", "sizes", name)
    yield from all_ones("dynamic-output-scale-one", desc, "OutputScaleTensor")
    yield from all_ones("dynamic-output-zero-point-one", desc, "OutputZeroPointTensor")


def desc_sizes(inputs: Inputs, outputs: Outputs) -> dict[str, tuple[int, ...]]:
    """Return that the parameters of a desc have as many sizes of 1 as the input has sizes."""
    ones = (1,) * len(inputs["InputTensor"].sizes)
    return dict.fromkeys(("OutputScaleTensor", "OutputZeroPointTensor"), ones)


TABLES: Tables = {
    "4_0": (
        row("InputTensor", "input", 1, 8, FLOATS),
        row("OutputTensor", "output", 1, 8, BYTES),
        row("OutputScaleTensor", "output", 1, 8, "FLOAT32"),
        row("OutputZeroPointTensor", "output", 1, 8, BYTES),
    )
}
