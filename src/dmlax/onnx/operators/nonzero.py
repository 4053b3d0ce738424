"""Outputs whose rows depend on values: they have a static size and a count."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import dmlax
from dmlax.errors import UnsupportedError
from dmlax.onnx.operators.table import Tensor, operator
from dmlax.onnx.operators.values import device_dtype, expect_memory, is_known

OUTSIDE = np.iinfo(np.int32).max
"""The index in the rows after the count: Gather reads 0 there, and Scatter drops its writes."""


COUNTED = ("Compress", "NonMaxSuppression", "NonZero")
"""The operators whose output has a count."""


@jax.tree_util.register_dataclass
@dataclass
class Counted:
    """The rows of an output, and how many of them there are."""

    rows: Array
    count: Array


def expect_size(size: int | None) -> int:
    """The number of rows, which an option gives."""
    if size is None:
        text = 'it needs a size: give nonzero_size, or nonzero_size={"node": n} by the node\'s name'
        raise UnsupportedError(text)
    return size


@operator("NonZero", 9, 13)
def nonzero(x: Tensor, *, nonzero_size: int | None) -> Tensor | Counted:
    """The coordinates of the nonzero elements, `[axis, element]`."""
    if is_known(x):
        x = np.atleast_1d(x)
        expect_memory(np.int64, x.ndim, int(np.count_nonzero(x)))
        return np.stack(np.nonzero(x))
    size = expect_size(nonzero_size)
    rows = dmlax.nonzero_coordinates(x, size=size, fill_value=OUTSIDE)
    coordinates = jnp.moveaxis(rows.coordinates, -1, 0).astype(device_dtype(np.int64))
    return Counted(coordinates, rows.count)
