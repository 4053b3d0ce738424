"""Buffers of a desc: reading elements, and writing them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...format import layout
from .steps import Array

Desc = Mapping[str, Any]


def gathered(desc: Desc, held: Array) -> Array:
    """Return the elements of a buffer in the desc's sizes."""
    if layout.is_packed(desc):
        return held
    return np.asarray(held[places(desc)].reshape(desc["Sizes"]))


def scattered(desc: Desc, array: Array, gap: int = 0) -> Array:
    """Return the buffer that holds these elements."""
    if layout.is_packed(desc) or array.shape != tuple(desc["Sizes"]):
        return array
    held = np.full(layout.buffer_length(desc), gap, array.dtype)
    held[places(desc)] = array.reshape(-1)
    return held


def places(desc: Desc) -> list[int]:
    """Return the offset of each element, row-major."""
    return layout.offsets(desc["Sizes"], layout.strides_of(desc))


@dataclass(frozen=True)
class Layout:
    """Conversions from and to a layout."""

    gather: Callable[[Desc, Array], Array] = gathered
    scatter: Callable[[Desc, Array], Array] = scattered
