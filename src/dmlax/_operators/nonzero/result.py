"""The two outputs of nonzero_coordinates."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import compat

_OUTSIDE = np.uint32(2**32 - 1)  # no axis is so long


class NonzeroCoordinates(NamedTuple):
    """The number of elements that are not zero, and their coordinates."""

    count: Array  # type: ignore[assignment]  # hides a method of tuple
    """uint32, shape (): of the whole input, also where `size` holds fewer."""
    coordinates: Array
    """uint32, shape (size, coordinate_rank): ascending, then `fill_value`."""

    @property
    def indices(self) -> tuple[Array, ...]:
        """The coordinates as an index of `x.at`, a uint32 array for each column.

        Rows after the count lie outside of every axis, whatever `fill_value` is: with
        `mode="fill"` a gather reads its fill value there, and a scatter drops what it writes.
        """
        rows = self.coordinates.shape[:-1]
        row = lax.broadcasted_iota(jnp.uint32, rows, len(rows) - 1)
        is_element = row < jnp.expand_dims(self.count, -1)
        columns = jnp.moveaxis(self.coordinates, -1, 0)
        return tuple(jnp.where(is_element, column, _OUTSIDE) for column in columns)


compat.serialise_namedtuple(NonzeroCoordinates, "dmlax.NonzeroCoordinates")
