"""Rules of ELEMENT_WISE_QUANTIZE_LINEAR, of calls and of descs, and its tensor support tables."""

from .._shared import call_rules as calls
from .._shared import element_wise_rules as shared
from .._shared.call_rules import Attributes, Inputs, Outputs
from .._shared.desc_rules import Desc, Found, Violation, same_types, type_clauses
from .._shared.element_wise_rules import DESC_CLAUSES as ELEMENT_WISE
from .._shared.element_wise_rules import check_parameters, element_wise, same_shape
from .._shared.tables import BYTES, FLOATS, Rows, Tables

CLAUSES = {
    "QNT-1": "The result is clamp(round(input / scale) + zero point) in real arithmetic.",
    "QNT-2": "Rounding is to nearest, ties to even, and comes before the zero point.",
    "QNT-3": "The result is clamped to the full range of the output data type.",
    "QNT-4": "Input is FLOAT32, FLOAT16 or INT32; scale has the data type of the input, but"
    " FLOAT32 for INT32; the output is INT8 or UINT8, as is the zero point.",
    "QNT-5": "Scale and zero point apply element by element; they repeat along sizes of 1.",
    "QNT-6": "A scale is finite and not zero.",
    "QNT-7": "The page is silent about infinities, which saturate here, and about NaN.",
    "QNT-8": "A missing zero point is 0.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {
    **dict.fromkeys(("QNT-1", "QNT-2", "QNT-3"), "result"),
    "QNT-7": "open",
    "QNT-8": "absent",
}


TYPES = {"ZeroPointTensor": "OutputTensor"}
DESC_CLAUSES = {
    **ELEMENT_WISE,
    "scale-data-type": "ScaleTensor is FLOAT32 for an INT32 input, else it has the input's type.",
    **type_clauses(TYPES),
}

desc_sizes = shared.desc_sizes


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, then that both parameters broadcast to the input."""
    calls.data_type(inputs, "InputTensor", ("float32", "float16", "int32"))
    dtype = inputs["InputTensor"].dtype
    calls.data_type(inputs, "ScaleTensor", ("float32" if dtype == "int32" else dtype,))
    calls.need(outputs["OutputTensor"].dtype in calls.EIGHT_BIT, "data_type", "OutputTensor")
    calls.same_data_type(inputs, "ZeroPointTensor", outputs["OutputTensor"].dtype)
    check_parameters(inputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_shape("quantize", desc)
    image, scale = desc["InputTensor"], desc["ScaleTensor"]
    if image is not None and scale is not None:
        wanted = "FLOAT32" if image["DataType"] == "INT32" else image["DataType"]
        if scale["DataType"] != wanted:
            yield Violation("quantize-scale-data-type", "data_type", "ScaleTensor")
    yield from same_types("quantize", desc, TYPES)


def _quantize(counts: tuple[int, int], source: str, scale: str, result: str, kind: str) -> Rows:
    return element_wise(counts, source, scale, result, result, kind)


TABLES: Tables = {
    "1_0": _quantize((4, 4), "FLOAT32", "FLOAT32", "UINT8", "input"),
    "2_1": _quantize((4, 4), "FLOAT32 INT32", "FLOAT32", BYTES, "input"),
    "3_0": _quantize((1, 8), "FLOAT32 INT32", "FLOAT32", BYTES, "input"),
    "6_0": _quantize((1, 8), f"{FLOATS} INT32", FLOATS, BYTES, "input"),
    "6_2": _quantize((1, 8), f"{FLOATS} INT32", FLOATS, BYTES, "optional"),
}
