"""Symbolic sizes in known values: Python combines them, and operators move their indices."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dmlax.onnx.graph import Node
from dmlax.onnx.operators import wide
from dmlax.onnx.operators.values import (
    DTYPES,
    FloatSizes,
    UndecidedSizes,
    expect_memory,
    expect_simple_product,
    integers,
    is_known,
    is_size,
    larger_size,
)

_least, _most = (np.frompyfunc(f, 2, 1) for f in (jax.core.min_dim, larger_size))


def _are_equal(x: Any, y: Any) -> bool:
    """True for equal sizes; a size that may be a number is usually larger."""
    if x == y:
        return True
    for size, number in ((x, y), (y, x)):
        if is_size(number) and not is_size(size) and not _differ(size, number):
            raise UndecidedSizes(f"{size} >= {number + 1}")
    return False


def _differ(size: Any, number: int) -> bool:
    """True if no call has a size that is the number."""
    try:
        return bool(size > number or size < number)
    except jax.errors.InconclusiveDimensionOperation:
        return False


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else _most(x, low)
    return x if high is None else _least(x, high)


_PAIRS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.floor_divide,  # sizes are not negative
    "Mod": np.mod,
    "Sum": np.add,
    "Min": _least,
    "Max": _most,
    "Equal": np.frompyfunc(_are_equal, 2, 1),
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
_OTHERS: dict[str, Callable[..., Any]] = {
    "Abs": lambda x: _most(x, -x),
    "Clip": _clip,
    "Neg": np.negative,
    "Pow": np.power,
    "Relu": lambda x: _most(x, 0),
}
_REDUCTIONS: dict[str, Any] = {
    "ReduceMax": _most,
    "ReduceMin": _least,
    "ReduceProd": np.multiply,
    "ReduceSum": np.add,
}
_MOVED = {*wide.MOVES, "Concat", "OneHot", "Where", "ScatterElements", "ScatterND"} - {"TopK"}


def has_sizes(values: Sequence[Any]) -> bool:
    """True if every operand is known, and one has symbolic sizes."""
    known = [x for x in values if x is not None]
    return all(map(is_known, known)) and any(x.dtype.hasobject for x in known)


def compute(
    node: Node, values: Sequence[Any], move: Callable[[Sequence[Any]], Any]
) -> np.ndarray | tuple[np.ndarray, ...] | None:
    """The outputs of an operator of symbolic sizes; None of one that needs numbers.

    Args:
      node: the node.
      values: its operands, all of them known.
      move: computes the node for numbers.
    """
    if any(x is not None and x.dtype.kind == "f" for x in values) or node.domain:
        return None
    if node.op == "Cast":
        return _cast(values[0], DTYPES.get(node.attributes["to"]))
    if node.op in _REDUCTIONS:
        return _reduce(node, *values)
    if node.op in _PAIRS or node.op in _OTHERS:
        shape = np.broadcast_shapes(*(x.shape for x in values if x is not None))
        expect_memory(object, *shape)
        if node.op in _OTHERS:
            return _whole(_OTHERS[node.op](*values))
        return _whole(functools.reduce(_PAIRS[node.op], values))
    data = wide.places_of(node, values)
    others = (x for i, x in enumerate(values) if i not in data and x is not None)
    is_moved = node.op in _MOVED and node.attributes.get("reduction", "none") == "none"
    is_moved = is_moved and not any(x.dtype.hasobject for x in others)
    return _move(values, data, move) if is_moved else None


def _cast(x: np.ndarray, dtype: np.dtype | None) -> np.ndarray | None:
    """Sizes as other integers, or marked as floats."""
    if dtype is not None and dtype.kind in "iu":
        return x
    return x.view(FloatSizes) if dtype == np.float32 else None


def _reduce(node: Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    given = node.attributes.get("axes", ()) if axes is None else integers(axes)
    expect_memory(object, x.size)
    if node.op == "ReduceProd":
        expect_simple_product(x.ravel())
    if not given and node.attributes.get("noop_with_empty_axes"):
        return x
    keepdims = bool(node.attributes.get("keepdims", 1))
    axis = tuple(given) or tuple(range(x.ndim))
    axis = axis[0] if len(axis) == 1 else axis
    return _whole(_REDUCTIONS[node.op].reduce(x, axis=axis, keepdims=keepdims))


def _move(
    values: Sequence[Any], data: Sequence[int], move: Callable[[Sequence[Any]], Any]
) -> np.ndarray | tuple[np.ndarray, ...]:
    """Moves the places of elements: 0 is the place of the zero that fills gaps."""
    elements, operands = [np.zeros(1, object)], list(values)
    for i in data:
        if (x := operands[i]) is not None:
            start = sum(part.size for part in elements)
            elements.append(x.astype(object).ravel())
            operands[i] = np.arange(start, start + x.size).reshape(x.shape)
    table = np.concatenate(elements)
    outputs = move(operands)

    def look_up(places: Any) -> np.ndarray:
        places = np.asarray(places)
        expect_memory(object, places.size)
        return _whole(table[places])

    return tuple(map(look_up, outputs)) if isinstance(outputs, tuple) else look_up(outputs)


def _whole(value: Any) -> np.ndarray:
    """An array of sizes; of int64 if none is symbolic."""
    array = np.empty(np.shape(value), object)
    array[...] = value
    if array.size and all(isinstance(x, bool | np.bool_) for x in array.ravel()):
        return array.astype(bool)
    return array.astype(np.int64) if all(map(is_size, array.ravel())) else array
