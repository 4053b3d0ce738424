"""Planted bugs that both element-wise operators can have: how parameters repeat."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...suite.adapter import Case
from ...suite.bugs.record import Bug, in_reading
from ...suite.bugs.refusals import accept, in_refusals, refuse
from ...suite.bugs.steps import Array, Call

IMAGE, SCALE, POINT, OUTPUT = "InputTensor", "ScaleTensor", "ZeroPointTensor", "OutputTensor"
ALIKE_RANKS = ((IMAGE, SCALE, POINT, OUTPUT),)
IMPLIED = {
    "operator-feature-level": "the first level has it",
    "tensor-element-limit": "the output cannot be so large",
}
SAME_SIZES = "Sizes of other lengths differ"


def of_parameters(operator: str, clause: str) -> Iterator[Bug]:
    """Yield the bugs of how scale and zero point repeat, and of how their sizes are checked."""
    for field, label in {SCALE: "scale", POINT: "zero-point"}.items():
        for answer, word, tests in ((accept, "accepts", WRONG), (refuse, "refuses", ALLOWED)):
            calls = {f"{word}-{label}-{k}": _asking(field, test) for k, test in tests.items()}
            yield from in_refusals(operator, clause, answer, "sizes", field, calls)
    yield from in_reading(operator, clause, f"{SCALE} {POINT}", REPEATS)
    axes = {"refuses-different-axes": lambda case: _shapes_differ(case.inputs)}
    yield from in_refusals(operator, clause, refuse, "sizes", POINT, axes)


def _asking(field: str, test: Callable[[Array, Array], Any]) -> Callable[[Case], Any]:
    return lambda case: field in case.inputs and test(case.inputs[field], case.inputs[IMAGE])


def _shapes_differ(given: Mapping[str, Array]) -> bool:
    return POINT in given and given[POINT].shape != given[SCALE].shape


def _grows(own: Array, image: Array) -> bool:
    """Return whether input and parameter repeat to sizes other than the input's."""
    try:
        return np.broadcast_shapes(image.shape, own.shape) != image.shape
    except ValueError:
        return own.size > image.size


WRONG: dict[str, Callable[[Array, Array], bool]] = {
    "that-grows": _grows,
    "of-higher-rank": lambda own, image: own.ndim > image.ndim,
    "short": lambda own, image: own.size < max(image.shape, default=1),
}
ALLOWED: dict[str, Callable[[Array, Array], bool]] = {
    "of-lower-rank": lambda own, image: own.ndim < image.ndim,
    "of-rank-0": lambda own, image: own.ndim == 0,
    "that-repeats": lambda own, image: own.ndim > 0 and own.shape != image.shape,
}


def _stretched(own: Array, call: Call) -> Array:
    """Repeat each element in place, wherever the sizes of 1 are."""
    sizes = call.inputs[IMAGE].shape
    count = max(int(np.prod(sizes)) // own.size, 1)
    return np.resize(np.repeat(own.reshape(-1), count), sizes)


def _on_axis_1(own: Array, call: Call) -> Array:
    """Take a parameter with as many elements as axis 1 to be for that axis."""
    sizes = call.inputs[IMAGE].shape
    is_for_it = len(sizes) > 1 and own.size == sizes[1] > 1
    return own.reshape((1, -1) + (1,) * (len(sizes) - 2)) if is_for_it else own


def _transposed(own: Array, call: Call) -> Array:
    sizes = call.inputs[IMAGE].shape
    return np.broadcast_to(own, sizes).T.reshape(sizes)


REPEATS: dict[str, Callable[[Array, Call], Array]] = {
    "parameters-cycled": lambda own, call: np.resize(own, call.inputs[IMAGE].shape),
    "parameters-stretched": _stretched,
    "parameters-on-axis-1": _on_axis_1,
    "parameters-transposed": _transposed,
}
