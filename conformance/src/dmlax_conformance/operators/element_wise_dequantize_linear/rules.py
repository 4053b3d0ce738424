"""Rules of ELEMENT_WISE_DEQUANTIZE_LINEAR, of calls and of descs, and its tensor support tables."""

from .._shared import element_wise_rules as shared
from .._shared.call_rules import INTEGERS, Attributes, Inputs, Outputs, data_type, same_data_type
from .._shared.desc_rules import Desc, Found, same_types, type_clauses
from .._shared.element_wise_rules import DESC_CLAUSES as ELEMENT_WISE
from .._shared.element_wise_rules import check_parameters, element_wise, same_shape
from .._shared.tables import FLOATS, WHOLE, Rows, Tables

CLAUSES = {
    "DQT-1": "The result is (input - zero point) * scale in real arithmetic, rounded once.",
    "DQT-2": "Input is an integer of 8, 16 or 32 bits; the zero point has its data type.",
    "DQT-3": "The output has the data type of the scale, FLOAT32 or FLOAT16.",
    "DQT-4": "Scale and zero point apply element by element; they repeat along sizes of 1.",
    "DQT-5": "A scale is finite and not zero.",
    "DQT-6": "A missing zero point is 0.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = {"DQT-1": "result", "DQT-6": "absent"}


TYPES = {"ZeroPointTensor": "InputTensor", "OutputTensor": "ScaleTensor"}
DESC_CLAUSES = {**ELEMENT_WISE, **type_clauses(TYPES)}

desc_sizes = shared.desc_sizes


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtypes, then that both parameters broadcast to the input."""
    data_type(inputs, "InputTensor", INTEGERS)
    data_type(inputs, "ScaleTensor", ("float32", "float16"))
    same_data_type(inputs, "ZeroPointTensor", inputs["InputTensor"].dtype)
    check_parameters(inputs)


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    yield from same_shape("dequantize", desc)
    yield from same_types("dequantize", desc, TYPES)


def _dequantize(counts: tuple[int, int], source: str, scale: str, kind: str) -> Rows:
    return element_wise(counts, source, scale, source, scale, kind)


TABLES: Tables = {
    "1_0": _dequantize((4, 4), "UINT8", "FLOAT32", "input"),
    "2_1": _dequantize((4, 4), WHOLE, "FLOAT32", "input"),
    "3_0": _dequantize((1, 8), WHOLE, "FLOAT32", "input"),
    "6_0": _dequantize((1, 8), WHOLE, FLOATS, "input"),
    "6_2": _dequantize((1, 8), WHOLE, FLOATS, "optional"),
}
