"""The tensor support tables of NONZERO_COORDINATES."""

from .._shared.tables import FLOATS, WHOLE, Rows, Tables, row


def _nonzero(image: tuple[int, int], count: tuple[int, int], rows: tuple[int, int]) -> Rows:
    return (
        row("InputTensor", "input", *image, f"{FLOATS} {WHOLE}"),
        row("OutputCountTensor", "output", *count, "UINT32"),
        row("OutputCoordinatesTensor", "output", *rows, "UINT32"),
    )


TABLES: Tables = {"3_0": _nonzero((4, 5), (4, 5), (4, 5)), "4_0": _nonzero((1, 8), (1, 8), (2, 8))}
