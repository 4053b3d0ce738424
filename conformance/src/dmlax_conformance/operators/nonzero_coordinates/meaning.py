"""NONZERO_COORDINATES."""

from collections.abc import Iterable

from ...format.layout import coordinates
from ...format.recipe import Sparse
from ...format.tensors import DTYPES, Tensor, count
from .._shared.call_rules import Attributes, Inputs, Outputs

Row = tuple[int, ...]


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


def nonzero_coordinates(tensor: Tensor, width: int) -> list[Row]:
    """Return the last `width` coordinates of every non-zero element, ascending."""
    return [coordinates(index, tensor.sizes)[-width:] for index in _hits(tensor)]


def _hits(tensor: Tensor) -> list[int]:
    """Return the indices of the non-zero elements; a sparse tensor lists what may be one."""
    places: Iterable[int] = range(len(tensor.words))
    words = tensor.words
    if isinstance(tensor.made_by, Sparse):
        places, words = tensor.made_by
    pairs = zip(places, words, strict=True)
    return [place for place, word in pairs if is_nonzero(word, tensor.dtype)]


def compute(attributes: Attributes, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the count and the rows; those past the count are 0, on which nothing may depend."""
    sizes = outputs["OutputCoordinatesTensor"].sizes
    rows = nonzero_coordinates(inputs["InputTensor"], sizes[-1])
    words = [place for row in rows for place in row]
    words += [0] * (count(sizes) - len(words))
    return {
        "OutputCountTensor": Tensor("uint32", outputs["OutputCountTensor"].sizes, (len(rows),)),
        "OutputCoordinatesTensor": Tensor("uint32", sizes, tuple(words)),
    }
