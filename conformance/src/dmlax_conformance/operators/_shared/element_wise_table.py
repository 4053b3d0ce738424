"""The tensor support table of an element-wise operator."""

from .tables import Rows, row


def element_wise(
    counts: tuple[int, int], source: str, scale: str, zero_point: str, result: str, kind: str
) -> Rows:
    """Return a table whose tensors have the same dimension counts."""
    return (
        row("InputTensor", "input", *counts, source),
        row("ScaleTensor", "input", *counts, scale),
        row("ZeroPointTensor", kind, *counts, zero_point),
        row("OutputTensor", "output", *counts, result),
    )
