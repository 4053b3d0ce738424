"""Derive bugs of strided tensors: reading an input, writing an output."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...format import layout
from ...format.layout import ELEMENT_BITS
from .layout import Desc, scattered
from .record import DESCS, Bug, in_part
from .steps import Array

Strides = Callable[[Desc], list[int]]


def bugs(operator: str) -> Iterator[Bug]:
    """Yield every bug in the strided tensors of an operator."""
    reads = {f"desc-read-{name}": partial(_gathering, strides) for name, strides in STRIDES.items()}
    writes = {
        f"desc-written-{name}": partial(_scattering, strides) for name, strides in STRIDES.items()
    }
    sides: Mapping[str, Mapping[str, Any]] = {"gather": reads, "scatter": {**writes, **BUFFERS}}
    for side, ways in sides.items():
        yield from in_part(operator, "tensor-buffer", "layout", side, ways, DESCS)


def _in_bytes(desc: Desc) -> list[int]:
    """Take strides to count bytes; those of single bytes to be packed."""
    size = ELEMENT_BITS[desc["DataType"]] // 8
    packed = layout.packed_strides(desc["Sizes"])
    return [step * size for step in layout.strides_of(desc)] if size > 1 else packed


STRIDES: dict[str, Strides] = {
    "packed": lambda desc: layout.packed_strides(desc["Sizes"]),
    "with-strides-reversed": lambda desc: layout.strides_of(desc)[::-1],
    "with-last-stride-1": lambda desc: [*layout.strides_of(desc)[:-1], 1],
    "with-strides-in-bytes": _in_bytes,
    "with-column-major-strides": lambda desc: layout.packed_strides(desc["Sizes"][::-1])[::-1],
}


def _places(desc: Desc, strides: Strides, length: int) -> Array:
    """Return the offsets that other strides give, kept within the buffer."""
    return np.array(layout.offsets(desc["Sizes"], strides(desc))) % length


def _gathering(strides: Strides, desc: Desc, held: Array) -> Array:
    if layout.is_packed(desc):
        return held
    return np.asarray(held[_places(desc, strides, held.size)].reshape(desc["Sizes"]))


def _scattering(strides: Strides, desc: Desc, array: Array) -> Array:
    if layout.is_packed(desc):
        return array
    held = np.zeros(layout.buffer_length(desc), array.dtype)
    held[_places(desc, strides, held.size)] = array.reshape(-1)
    return held


def _end_early(desc: Desc, array: Array) -> Array:
    """End the buffer after its last element, although it is longer."""
    held = scattered(desc, array)
    if layout.is_packed(desc):
        return held
    return held[: layout.last_offset(desc["Sizes"], layout.strides_of(desc)) + 1]


BUFFERS: dict[str, Callable[[Desc, Array], Array]] = {
    "desc-returns-sizes-not-buffer": lambda desc, array: array,
    "desc-buffer-ends-early": _end_early,
    "desc-packed-output-is-flat": lambda desc, array: scattered(desc, array).reshape(-1),
}
