"""The two outputs of nonzero_coordinates."""

from typing import NamedTuple

from jax import Array

from dmlax._core import compat


class NonzeroCoordinates(NamedTuple):
    """The number of elements that are not zero, and their coordinates."""

    count: Array  # type: ignore[assignment]  # hides a method of tuple
    """uint32, shape (): of the whole input, also where `size` holds fewer."""
    coordinates: Array
    """uint32, shape (size, coordinate_rank): ascending, then `fill_value`."""


compat.serialise_namedtuple(NonzeroCoordinates, "dmlax.NonzeroCoordinates")
