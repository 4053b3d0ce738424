"""Floats that a node makes float64 while JAX has none: exact as the narrower floats they were.

A Cast leaves the float32. Nodes that move, compare or round elements compute with it. The result of
an operation that rounds once may only become float32 again: rounding a float64 quotient, product,
sum or root of float32 to float32 gives what one rounding gives.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import Array

from dmlax.errors import UnsupportedError
from dmlax.onnx.graph import Node
from dmlax.onnx.operators.values import NEEDS_X64, Float64

_MOVES = {"Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity"}
_MOVES |= {"Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
_EXACT = {"Abs", "ArgMax", "ArgMin", "Cast", "Ceil", "Clip", "Equal", "Floor", "Greater"}
_EXACT |= {"GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Max", "Min", "Neg", "Pad"}
_EXACT |= {"ReduceMax", "ReduceMin", "Relu", "Round", "Shape", "Sign", "Size", "TopK", "Where"}
_ROUNDED = {"Add", "Div", "Mul", "Sqrt", "Sub"}
_FLOAT32 = 1  # ONNX's number of the dtype


def fits_float32(x: Array) -> bool:
    """True if float32 holds every value of the dtype."""
    dtype = np.dtype(x.dtype)
    is_float = dtype.name in ("float32", "float16", "bfloat16")
    return is_float or (dtype.kind in "biu" and dtype.itemsize < 3)


def unwrap(
    node: Node, operands: Sequence[Any]
) -> tuple[list[Any], Callable[[tuple[Any, ...]], tuple[Any, ...]]]:
    """The operands of a node as float32, and a function that marks its outputs.

    Raises:
      UnsupportedError: the node needs float64.
    """
    wide = [x for x in operands if isinstance(x, Float64)]
    if not wide:
        return [*operands], lambda outputs: outputs
    was_rounded = any(x.is_rounded for x in wide)
    is_back = node.op == "Cast" and node.attributes.get("to") == _FLOAT32
    is_exact = is_back or node.op in _MOVES
    is_exact = is_exact or (not was_rounded and node.op in _EXACT | _ROUNDED)
    if node.domain or not is_exact:
        raise UnsupportedError(NEEDS_X64, "data_type", "data type")
    is_rounded = was_rounded or node.op in _ROUNDED

    def mark(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if node.op == "Cast":
            return outputs
        is_float = (getattr(x, "dtype", None) == np.float32 for x in outputs)
        pairs = zip(outputs, is_float, strict=True)
        return tuple(Float64(x, is_rounded) if wide else x for x, wide in pairs)

    return [_narrow(x) for x in operands], mark


def _narrow(x: Any) -> Any:
    """The float32 of an operand; a constant must be one."""
    if isinstance(x, Float64):
        return x.array
    if not isinstance(x, np.ndarray) or x.dtype != np.float64:
        return x
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32)
    if not np.array_equal(narrow, x, equal_nan=True):
        raise UnsupportedError(NEEDS_X64, "data_type", "data type")
    return narrow
