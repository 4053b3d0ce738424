"""The tensor support tables of QUANTIZED_LINEAR_CONVOLUTION."""

from .._shared.tables import BYTES, Rows, Tables, row


def _quantized(lowest: int, filter_scale: int, parameter: int) -> Rows:
    """Return the table whose lowest DimensionCounts are these; the highest is always 4."""
    return (
        row("InputTensor", "input", lowest, 4, BYTES),
        row("InputScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("InputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("FilterTensor", "input", lowest, 4, BYTES),
        row("FilterScaleTensor", "input", filter_scale, 4, "FLOAT32"),
        row("FilterZeroPointTensor", "optional", parameter, 4, BYTES),
        row("BiasTensor", "optional", lowest, 4, "INT32"),
        row("OutputScaleTensor", "input", parameter, 4, "FLOAT32"),
        row("OutputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, BYTES),
    )


TABLES: Tables = {
    "2_1": _quantized(4, 4, 4),
    "4_0": _quantized(3, 3, 1),
    "5_2": _quantized(3, 1, 1),
}
