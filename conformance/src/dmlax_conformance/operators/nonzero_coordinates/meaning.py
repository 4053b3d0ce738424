"""NONZERO_COORDINATES."""

from collections.abc import Iterable

from ...format.recipe import Sparse
from ...format.tensors import DTYPES, Tensor

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


def coordinates(index: int, sizes: tuple[int, ...]) -> Row:
    """Return the coordinates of a row-major element index."""
    row = []
    for size in reversed(sizes):
        index, place = divmod(index, size)
        row.append(place)
    return tuple(reversed(row))


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
