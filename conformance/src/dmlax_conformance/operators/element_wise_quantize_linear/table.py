"""The tensor support tables of ELEMENT_WISE_QUANTIZE_LINEAR."""

from .._shared.element_wise_table import element_wise
from .._shared.tables import BYTES, FLOATS, Rows, Tables


def _quantize(counts: tuple[int, int], source: str, scale: str, result: str, kind: str) -> Rows:
    return element_wise(counts, source, scale, result, result, kind)


TABLES: Tables = {
    "1_0": _quantize((4, 4), "FLOAT32", "FLOAT32", "UINT8", "input"),
    "2_1": _quantize((4, 4), "FLOAT32 INT32", "FLOAT32", BYTES, "input"),
    "3_0": _quantize((1, 8), "FLOAT32 INT32", "FLOAT32", BYTES, "input"),
    "6_0": _quantize((1, 8), f"{FLOATS} INT32", FLOATS, BYTES, "input"),
    "6_2": _quantize((1, 8), f"{FLOATS} INT32", FLOATS, BYTES, "optional"),
}
