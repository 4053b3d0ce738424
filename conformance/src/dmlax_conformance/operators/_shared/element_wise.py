"""Parameters that repeat over the elements of an input."""

import numpy as np

from ...format.tensors import Tensor


def broadcast(tensor: Tensor, sizes: tuple[int, ...]) -> list[int]:
    """Return the words repeated to `sizes`; sizes align on the right and 1 repeats."""
    if tensor.sizes == sizes:
        return list(tensor.words)
    places = np.arange(len(tensor.words)).reshape(tensor.sizes)
    return [tensor.words[place] for place in np.broadcast_to(places, sizes).reshape(-1).tolist()]


def zero_points(zero_point: Tensor | None, x: Tensor) -> list[int]:
    """Return a zero point for each element; a missing one is 0."""
    return [0] * len(x.words) if zero_point is None else broadcast(zero_point, x.sizes)
