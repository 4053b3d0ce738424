"""Layouts of the native kernels of windows: batch first, channels next or last."""

from collections.abc import Sequence
from typing import NamedTuple

from jax import Array

from dmlax._core.layouts import from_order, has_channels_last, order_of, to_order


class Layout(NamedTuple):
    """The kernel's layout that is nearest to a layout, whose axes are N, C and the spatial ones."""

    axes: tuple[int, ...]
    rank: int  # the rank of the kernel's arrays; missing spatial axes have size 1

    @property
    def channels_last(self) -> bool:
        """True if the channels are last."""
        return has_channels_last(self.axes)

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The kernel's shape of an array of sizes N, C, spatial."""
        ordered = self._in_order(sizes)
        place = 1 if self.channels_last else 2
        return (*ordered[:place], *(1,) * (self.rank - len(sizes)), *ordered[place:])

    def to_kernel(self, x: Array) -> Array:
        """Converts an array of the layout."""
        sizes = [x.shape[axis] for axis in self.axes]
        return to_order(x, self.axes, self.channels_last).reshape(self.shape(sizes))

    def from_kernel(self, y: Array, sizes: Sequence[int], axes: Sequence[int]) -> Array:
        """Converts to an array of sizes N, C, spatial, which are its `axes`."""
        return from_order(y.reshape(self._in_order(sizes)), axes, self.channels_last)

    def _in_order(self, sizes: Sequence[int]) -> list[int]:
        return [sizes[i] for i in order_of(len(sizes), self.channels_last)]
