"""Rules of NONZERO_COORDINATES, of calls and of descs, and its tensor support tables."""

from collections.abc import Sequence
from math import prod

from .._shared.call_rules import INTEGERS, Attributes, Inputs, Outputs, data_type, need
from .._shared.desc_rules import Desc, Found, Violation, all_ones, same_counts
from .._shared.tables import FLOATS, WHOLE, Rows, Tables, row
from .meaning import effective_rank

COUNTED = ("bool", *INTEGERS, "int64", "uint64", "float16", "float32", "float64")

CLAUSES = {
    "NZC-1": "Every non-zero element gives one row: its coordinates on the last N axes.",
    "NZC-2": "Zero and minus zero are zero; every other bit pattern of a float is non-zero.",
    "NZC-3": "N is at least the effective rank (leading sizes of 1 dropped), at least 1, and at"
    " most the rank of the input.",
    "NZC-4": "Rows ascend by the row-major index of their element.",
    "NZC-5": "The count is how many elements are non-zero, as one UINT32.",
    "NZC-6": "M equals the number of elements; rows from the count on are undefined.",
    "NZC-7": "The input has a supported data type.",
    "NZC-8": "The input has a rank of 1 to 8.",
}


# Clauses that no call can break, and why.
UNBREAKABLE = dict.fromkeys(("NZC-1", "NZC-2", "NZC-4", "NZC-5", "NZC-6"), "result")


DESC_CLAUSES = {
    "same-dimension-count": "The page of 3.0 wants the same DimensionCount in all three tensors;"
    " from 4.0 on it does not.",
    "count-scalar": "OutputCountTensor has only sizes of 1.",
    "coordinates-leading": "All sizes of OutputCoordinatesTensor but the last two are 1.",
    "coordinates-rows": "M, the last size but one, is the number of elements of the input.",
    "coordinates-columns": "N, the last size, is at least the effective rank of the input, at"
    " least 1, and at most its DimensionCount.",
}


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check dtype and rank of the input, and the width of a coordinate."""
    x = inputs["InputTensor"]
    data_type(inputs, "InputTensor", COUNTED)
    need(len(x.sizes) >= 1, "dimension_count", "InputTensor")
    width = outputs["OutputCoordinatesTensor"].sizes[-1]
    lowest = max(effective_rank(x.sizes), 1)
    need(lowest <= width <= len(x.sizes), "sizes", "OutputCoordinatesTensor")


def check_desc(desc: Desc, feature_level: str) -> Found:
    """Yield the rules that a desc breaks."""
    if feature_level in ("3_0", "3_1"):
        yield from same_counts("nonzero", desc, "OutputCountTensor OutputCoordinatesTensor")
    yield from all_ones("nonzero-count-scalar", desc, "OutputCountTensor")
    if desc["OutputCoordinatesTensor"] is not None:
        yield from _coordinates(desc["OutputCoordinatesTensor"]["Sizes"], desc["InputTensor"])


def _coordinates(sizes: Sequence[int], image: Desc | None) -> Found:
    """Check {1, ..., 1, M, N} as far as there are M, N and an input."""
    name = "OutputCoordinatesTensor"
    if any(size != 1 for size in sizes[:-2]):
        yield Violation("nonzero-coordinates-leading", "sizes", name)
    if image is None:
        return
    if len(sizes) >= 2 and sizes[-2] != prod(image["Sizes"]):
        yield Violation("nonzero-coordinates-rows", "sizes", name)
    lowest = max(effective_rank(image["Sizes"]), 1)
    if sizes and not lowest <= sizes[-1] <= image["DimensionCount"]:
        yield Violation("nonzero-coordinates-columns", "sizes", name)


def _nonzero(image: tuple[int, int], count: tuple[int, int], rows: tuple[int, int]) -> Rows:
    return (
        row("InputTensor", "input", *image, f"{FLOATS} {WHOLE}"),
        row("OutputCountTensor", "output", *count, "UINT32"),
        row("OutputCoordinatesTensor", "output", *rows, "UINT32"),
    )


TABLES: Tables = {"3_0": _nonzero((4, 5), (4, 5), (4, 5)), "4_0": _nonzero((1, 8), (1, 8), (2, 8))}
