"""NONZERO_COORDINATES."""

from collections.abc import Iterable

from ..tensors import DTYPES, Tensor

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
    hits = (i for i, word in enumerate(tensor.words) if is_nonzero(word, tensor.dtype))
    return [coordinates(index, tensor.sizes)[-width:] for index in hits]
