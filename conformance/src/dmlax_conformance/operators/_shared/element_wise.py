"""Parameters that repeat over the elements of an input."""

from ...format.layout import coordinates
from ...format.tensors import Tensor, count


def broadcast(tensor: Tensor, sizes: tuple[int, ...]) -> list[int]:
    """Return the words repeated to `sizes`; sizes align on the right and 1 repeats."""
    if tensor.sizes == sizes:
        return list(tensor.words)
    offset = len(sizes) - len(tensor.sizes)
    words = []
    for index in range(count(sizes)):
        own = 0
        for size, place in zip(tensor.sizes, coordinates(index, sizes)[offset:], strict=True):
            own = own * size + (place if size > 1 else 0)
        words.append(tensor.words[own])
    return words


def zero_points(zero_point: Tensor | None, x: Tensor) -> list[int]:
    """Return a zero point for each element; a missing one is 0."""
    return [0] * len(x.words) if zero_point is None else broadcast(zero_point, x.sizes)
