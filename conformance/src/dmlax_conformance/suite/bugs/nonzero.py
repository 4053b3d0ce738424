"""NONZERO_COORDINATES in steps, each of which a bug can replace."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .steps import Array, Call, Outputs, Sizes


def non_zero_bits(x: Array) -> Array:
    """Mark elements with a bit other than the sign of a float."""
    if x.dtype.kind != "f":
        return np.asarray(x != 0)
    unsigned = x.view(f"uint{8 * x.dtype.itemsize}")
    return np.asarray(unsigned << np.ones((), unsigned.dtype) != 0)


def row_major(mask: Array) -> Array:
    """Return the row-major index of each marked element, ascending."""
    return np.flatnonzero(mask)


def last_axes(indices: Array, sizes: Sizes, width: int) -> Array:
    """Return the coordinates on the last `width` axes, one row for each index."""
    return np.stack(np.unravel_index(indices, sizes), -1)[:, len(sizes) - width :]


def number_of_rows(rows: Array, call: Call) -> int:
    """Return how many elements were found."""
    return len(rows)


def then_zeros(rows: Array, sizes: Sizes) -> Array:
    """Return a table of the sizes asked for, zeros below the rows."""
    table = np.zeros(sizes, np.uint32)
    table.reshape(sizes[-2:])[: len(rows)] = rows
    return table


@dataclass(frozen=True)
class Nonzero:
    """The steps, in order."""

    mask: Callable[[Array], Array] = non_zero_bits
    order: Callable[[Array], Array] = row_major
    locate: Callable[[Array, Sizes, int], Array] = last_axes
    count: Callable[[Array, Call], int] = number_of_rows
    table: Callable[[Array, Sizes], Array] = then_zeros

    def __call__(self, call: Call) -> Outputs:
        """Return the count and the table of coordinates."""
        x, asked = call.inputs["InputTensor"], call.outputs["OutputCoordinatesTensor"].sizes
        rows = self.locate(self.order(self.mask(x)), x.shape, asked[-1])
        sizes = call.outputs["OutputCountTensor"].sizes
        return {
            "OutputCountTensor": np.full(sizes, self.count(rows, call), np.uint32),
            "OutputCoordinatesTensor": self.table(rows, asked),
        }
