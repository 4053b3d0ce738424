"""Structures of a call of an element-wise operator with a scale and a zero point."""

from functools import cached_property
from typing import Any

import numpy as np

from ...format.tensors import to_numpy
from .cross import Array, beyond, registers
from .output_structures import OutputView

SCALE, POINT = "ScaleTensor", "ZeroPointTensor"


class ElementWiseView(OutputView):
    """The parts of a call that predicates read; every array has the input's elements, flat."""

    @cached_property
    def x(self) -> Array:
        """The input."""
        return to_numpy(self.vector.inputs["InputTensor"]).reshape(-1)

    @cached_property
    def scale(self) -> Array:
        """The scale of each element."""
        return self._repeated(SCALE)

    @cached_property
    def zero_point(self) -> Array:
        """The zero point of each element; a missing one is 0."""
        return self._repeated(POINT).astype(np.int64)

    def parameter(self, name: str) -> tuple[int, ...] | None:
        """Return the sizes of a parameter, as many as the input's; None if it is absent."""
        if name not in self.vector.inputs:
            return None
        own = self.vector.inputs[name].sizes
        return (1,) * (len(self.sizes) - len(own)) + own

    def _repeated(self, name: str) -> Array:
        if name not in self.vector.inputs:
            return np.zeros(self.count, np.int64)
        own = to_numpy(self.vector.inputs[name])
        return np.broadcast_to(own, self.sizes).reshape(-1)


def _has_one(view: ElementWiseView, name: str) -> bool:
    own = view.parameter(name)
    return own is not None and int(np.prod(own)) == 1


def _has_each(view: ElementWiseView, name: str) -> bool:
    return view.parameter(name) == view.sizes and view.count > 1


def _repeats(view: ElementWiseView, name: str) -> bool:
    own = view.parameter(name)
    return own is not None and 1 < int(np.prod(own)) < view.count


def _is_along(view: ElementWiseView, name: str, axis: int) -> bool:
    """Return whether a parameter changes on this axis alone, and the input on others too."""
    own = view.parameter(name)
    return (
        own is not None
        and _repeats(view, name)
        and own[axis] == view.sizes[axis] == int(np.prod(own))
    )


def _at_rank(rank: int) -> Any:
    return lambda view: len(view.sizes) == rank


def _varies_at_rank(rank: int) -> Any:
    return lambda view: len(view.sizes) == rank and min(view.sizes) > 1


def _repeats_at_rank(rank: int) -> Any:
    return lambda view: len(view.sizes) == rank and _repeats(view, SCALE)


STRUCTURES: dict[str, Any] = {
    "fewer than 8 elements": lambda view: view.count < 8,
    **beyond("elements", lambda view: view.index, (8, 16, 32, 64, 128, 256)),
    **registers("elements", lambda view: view.index, lambda view: view.count, (8, 16, 32, 64)),
    **registers(
        "a row",
        lambda view: view.index % view.columns,
        lambda view: view.columns * (len(view.sizes) > 1),
        (8, 16, 32),
    ),
    **{f"rank {rank}": _at_rank(rank) for rank in range(1, 9)},
    **{f"rank {rank}, every axis varies": _varies_at_rank(rank) for rank in range(5, 9)},
    **{f"scales repeat at rank {rank}": _repeats_at_rank(rank) for rank in range(2, 9)},
    "one scale": lambda view: _has_one(view, SCALE),
    "a scale for each element": lambda view: _has_each(view, SCALE),
    "scales along the first axis": lambda view: _is_along(view, SCALE, 0),
    "scales along the last axis": lambda view: _is_along(view, SCALE, -1),
    "no zero point": lambda view: view.parameter(POINT) is None,
    "one zero point": lambda view: _has_one(view, POINT),
    "a zero point for each element": lambda view: _has_each(view, POINT),
    "zero points along the first axis": lambda view: _is_along(view, POINT, 0),
    "zero points along the last axis": lambda view: _is_along(view, POINT, -1),
    "scale and zero point repeat differently": lambda view: (
        view.parameter(POINT) not in (None, view.parameter(SCALE))
    ),
}
