"""Converts the arguments of a nonzero call to its operand."""

from collections.abc import Hashable
from typing import cast

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import compat
from dmlax._core.arguments import aval_of
from dmlax._nonzero.plan import RULES, NonzeroPlan, nonzero_plan


def plan(
    input: ArrayLike,
    /,
    *,
    size: int | None = None,
    coordinate_rank: int | None = None,
    fill_value: int = 0,
    axis_name: Hashable = None,
) -> tuple[NonzeroPlan, Array]:
    """Plans a call, and returns its operand."""
    array = RULES.to_array("InputTensor", input)
    if size is not None:
        size = RULES.to_integer("size", size, 0, 2**32 - 1)
    if coordinate_rank is not None:
        coordinate_rank = RULES.to_integer("coordinate_rank", coordinate_rank, 0)
    fill_value = RULES.to_integer("fill_value", fill_value, 0, 2**32 - 1)
    devices = 1 if axis_name is None else compat.axis_size(axis_name)
    options = (size, coordinate_rank, fill_value, axis_name, devices)
    checked = nonzero_plan(aval_of(array), *options)
    if (narrow := _narrow(array)) is array:
        return checked, array
    return nonzero_plan(aval_of(narrow), *options), narrow


def _narrow(array: Array) -> Array:
    """Tests a 64-bit NumPy array for zeros if JAX would narrow it, since narrowing makes zeros."""
    if not isinstance(array, np.ndarray) or compat.canonical_dtype(array.dtype) == array.dtype:
        return array
    if array.dtype.kind not in "iuf":
        return array
    magnitude = np.ascontiguousarray(array).view(np.uint64).reshape(array.shape)
    if array.dtype.kind == "f":
        magnitude = magnitude << np.uint64(1)
    return cast(Array, np.asarray(magnitude != 0))
