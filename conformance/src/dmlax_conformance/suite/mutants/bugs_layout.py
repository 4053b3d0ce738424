"""Planted bugs of strided tensors: reading an input, writing an output."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ...format import layout
from ...format.layout import ELEMENT_BITS
from ...operators.tables import TABLES
from .layout import Desc
from .record import HONEST, Mutant, mutant
from .steps import Array

CLAUSE = "tensor-buffer"
Steps = Callable[[Desc], list[int]]


def mutants() -> Iterator[Mutant]:
    """Yield the bugs of this module."""
    for operator in TABLES:
        for name, (about, steps) in STEPS.items():
            for side, verb in {"gather": "read", "scatter": "written"}.items():
                made = replace(HONEST.layout, **{side: _SIDES[side](steps)})
                text = f"descs: a strided tensor is {verb} {about}"
                whole = f"desc-{verb}-{name}"
                yield mutant(operator, whole, CLAUSE, text, replace(HONEST, layout=made))
        for name, (about, scatter) in BUFFERS.items():
            made = replace(HONEST.layout, scatter=scatter)
            text = f"descs: {about}"
            yield mutant(operator, f"desc-{name}", CLAUSE, text, replace(HONEST, layout=made))


def _strides(desc: Desc) -> list[int]:
    return layout.strides_of(desc)


STEPS: dict[str, tuple[str, Steps]] = {
    "packed": ("as if it were packed", lambda desc: layout.packed_strides(desc["Sizes"])),
    "with-strides-reversed": ("with its strides reversed", lambda desc: _strides(desc)[::-1]),
    "with-last-stride-1": (
        "as if the last stride were 1",
        lambda desc: [*_strides(desc)[:-1], 1],
    ),
    "with-strides-in-bytes": (
        "as if strides counted bytes",
        lambda desc: (
            [max(step * 8 // ELEMENT_BITS[desc["DataType"]], 0) for step in _strides(desc)]
            if ELEMENT_BITS[desc["DataType"]] > 8
            else layout.packed_strides(desc["Sizes"])
        ),
    ),
    "with-column-major-strides": (
        "in column-major order",
        lambda desc: layout.packed_strides(desc["Sizes"][::-1])[::-1],
    ),
}


def _places(desc: Desc, steps: Steps, length: int) -> Array:
    """Return the offsets that other strides give, kept within the buffer."""
    return np.array(layout.offsets(desc["Sizes"], steps(desc))) % length


def _gathering(steps: Steps) -> Callable[[Desc, Array], Array]:
    def gather(desc: Desc, held: Array) -> Array:
        if layout.is_packed(desc):
            return held
        return np.asarray(held[_places(desc, steps, held.size)].reshape(desc["Sizes"]))

    return gather


def _scattering(steps: Steps) -> Callable[[Desc, Array], Array]:
    def scatter(desc: Desc, array: Array) -> Array:
        if layout.is_packed(desc):
            return array
        held = np.zeros(layout.buffer_length(desc), array.dtype)
        held[_places(desc, steps, held.size)] = array.reshape(-1)
        return held

    return scatter


_SIDES = {"gather": _gathering, "scatter": _scattering}


def _logical(desc: Desc, array: Array) -> Array:
    return array


def _ends_early(desc: Desc, array: Array) -> Array:
    """End the buffer after its last element, although it is longer."""
    held = HONEST.layout.scatter(desc, array)
    if layout.is_packed(desc):
        return held
    return held[: layout.last_offset(desc["Sizes"], layout.strides_of(desc)) + 1]


def _in_sizes(desc: Desc, array: Array) -> Array:
    """Return the buffer of a packed tensor flat too."""
    return HONEST.layout.scatter(desc, array).reshape(-1)


BUFFERS: dict[str, tuple[str, Callable[[Desc, Array], Array]]] = {
    "returns-sizes-not-buffer": ("a strided output has its sizes, not its buffer's", _logical),
    "buffer-ends-early": ("a strided output ends after its last element", _ends_early),
    "packed-output-is-flat": ("a packed output is one flat buffer", _in_sizes),
}
