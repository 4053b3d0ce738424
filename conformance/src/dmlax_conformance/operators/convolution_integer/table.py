"""The tensor support tables of CONVOLUTION_INTEGER."""

from .._shared.tables import BYTES, Rows, Tables, row


def _integer(lowest: int, parameter: int) -> Rows:
    return (
        row("InputTensor", "input", lowest, 4, BYTES),
        row("InputZeroPointTensor", "optional", parameter, 4, BYTES),
        row("FilterTensor", "input", lowest, 4, BYTES),
        row("FilterZeroPointTensor", "optional", parameter, 4, BYTES),
        row("OutputTensor", "output", lowest, 4, "INT32"),
    )


TABLES: Tables = {"2_1": _integer(4, 4), "4_0": _integer(3, 1)}
