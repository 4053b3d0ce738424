"""The tensor support tables of ELEMENT_WISE_DEQUANTIZE_LINEAR."""

from .._shared.element_wise_table import element_wise
from .._shared.tables import FLOATS, WHOLE, Rows, Tables


def _dequantize(counts: tuple[int, int], source: str, scale: str, kind: str) -> Rows:
    return element_wise(counts, source, scale, source, scale, kind)


TABLES: Tables = {
    "1_0": _dequantize((4, 4), "UINT8", "FLOAT32", "input"),
    "2_1": _dequantize((4, 4), WHOLE, "FLOAT32", "input"),
    "3_0": _dequantize((1, 8), WHOLE, "FLOAT32", "input"),
    "6_0": _dequantize((1, 8), WHOLE, FLOATS, "input"),
    "6_2": _dequantize((1, 8), WHOLE, FLOATS, "optional"),
}
