"""The coordinates of all elements that are not zero."""

from collections.abc import Iterable, Sequence
from math import prod

from ..format.layout import coordinates
from ..format.recipe import Sparse
from ..format.tensors import DTYPES, Tensor, count
from . import operator as rules
from .operator import Answer, Attributes, Definition, Desc, Found, Inputs, Outputs

_COUNTED = ("bool", *rules.INTEGERS, "int64", "uint64", "float16", "float32", "float64")


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> Answer:
    """Return the count and the rows; those past the count are 0, on which nothing may depend.

    https://learn.microsoft.com/windows/win32/api/directml/ns-directml-dml_nonzero_coordinates_operator_desc
    """
    sizes = outputs["OutputCoordinatesTensor"].sizes
    rows = nonzero_coordinates(inputs["InputTensor"], sizes[-1])
    words = [place for row in rows for place in row]
    words += [0] * (count(sizes) - len(words))
    return {
        "OutputCountTensor": Tensor("uint32", outputs["OutputCountTensor"].sizes, (len(rows),)),
        "OutputCoordinatesTensor": Tensor("uint32", sizes, tuple(words)),
    }


def nonzero_coordinates(tensor: Tensor, width: int) -> list[tuple[int, ...]]:
    """Return the last `width` coordinates of every non-zero element, ascending."""
    return [coordinates(index, tensor.sizes)[-width:] for index in _hits(tensor)]


def is_nonzero(word: int, dtype: str) -> bool:
    """Say whether an element counts: only zero and minus zero do not."""
    if DTYPES[dtype].kind == "bits":
        return word not in (0, 1 << (DTYPES[dtype].width - 1))
    return word != 0


def effective_rank(sizes: Iterable[int]) -> int:
    """Return the rank that is left when leading sizes of 1 are dropped."""
    rest = list(sizes)
    while rest and rest[0] == 1:
        rest.pop(0)
    return len(rest)


def _hits(tensor: Tensor) -> list[int]:
    """Return the indices of the non-zero elements; a sparse tensor lists what may be one."""
    places: Iterable[int] = range(len(tensor.words))
    words = tensor.words
    if isinstance(tensor.made_by, Sparse):
        places, words = tensor.made_by
    pairs = zip(places, words, strict=True)
    return [place for place, word in pairs if is_nonzero(word, tensor.dtype)]


def check(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
    """Check data type and dimensions of the input, and the width of a coordinate."""
    rules.data_type(inputs, _COUNTED, "InputTensor")
    rules.dimensions(inputs, "InputTensor", lowest=1)
    rank = len(inputs["InputTensor"].sizes)
    width = outputs["OutputCoordinatesTensor"].sizes[-1]
    lowest = max(effective_rank(inputs["InputTensor"].sizes), 1)
    rules.need(lowest <= width <= rank, "sizes", "OutputCoordinatesTensor")


def _check_desc(desc: Desc, feature_level: str) -> Found:
    if feature_level in ("3_0", "3_1"):
        yield from rules.same_counts(desc, "OutputCountTensor", "OutputCoordinatesTensor")
    yield from rules.all_ones(desc, "OutputCountTensor", rule="count-scalar")
    if desc["OutputCoordinatesTensor"] is not None:
        yield from _coordinates(desc["OutputCoordinatesTensor"]["Sizes"], desc["InputTensor"])


def _coordinates(sizes: Sequence[int], image: Desc | None) -> Found:
    """Check {1, ..., 1, M, N} as far as there are M, N and an input."""
    name = "OutputCoordinatesTensor"
    if any(size != 1 for size in sizes[:-2]):
        yield rules.Violation("coordinates-leading", "sizes", name)
    if image is None:
        return
    if len(sizes) >= 2 and sizes[-2] != prod(image["Sizes"]):
        yield rules.Violation("coordinates-rows", "sizes", name)
    lowest = max(effective_rank(image["Sizes"]), 1)
    if sizes and not lowest <= sizes[-1] <= image["DimensionCount"]:
        yield rules.Violation("coordinates-columns", "sizes", name)


def _table(image: tuple[int, int], count: tuple[int, int], rows: tuple[int, int]) -> rules.Rows:
    return (
        rules.row("InputTensor", "input", *image, f"{rules.FLOATS} {rules.WHOLE}"),
        rules.row("OutputCountTensor", "output", *count, "UINT32"),
        rules.row("OutputCoordinatesTensor", "output", *rows, "UINT32"),
    )


_CLAUSES = """
NZC-1 (result): Every non-zero element gives one row: its coordinates on the last N axes.
NZC-2 (result): Zero and minus zero are zero; every other bit pattern of a float is non-zero.
NZC-3: N is at least the effective rank (leading sizes of 1 dropped), at least 1, and at most the
  rank of the input.
NZC-4 (result): Rows ascend by the row-major index of their element.
NZC-5 (result): The count is how many elements are non-zero, as one UINT32.
NZC-6 (result): M equals the number of elements; rows from the count on are undefined.
NZC-7: The input has a supported data type.
NZC-8: The input has a rank of 1 to 8.
"""

DEFINITION = Definition(
    compute,
    check,
    _CLAUSES,
    {"3_0": _table((4, 5), (4, 5), (4, 5)), "4_0": _table((1, 8), (1, 8), (2, 8))},
    desc_clauses={
        "same-dimension-count": "The page of 3.0 wants the same DimensionCount in all three"
        " tensors; from 4.0 on it does not.",
        "count-scalar": "OutputCountTensor has only sizes of 1.",
        "coordinates-leading": "All sizes of OutputCoordinatesTensor but the last two are 1.",
        "coordinates-rows": "M, the last size but one, is the number of elements of the input.",
        "coordinates-columns": "N, the last size, is at least the effective rank of the input, at"
        " least 1, and at most its DimensionCount.",
    },
    check_desc=_check_desc,
)
