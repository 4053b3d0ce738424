"""Layouts and windows of convolutions and poolings, as ONNX has them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dmlax.onnx.export.writer import Shape, Tensor, Unwritable, Writer


class Layout(NamedTuple):
    """The axes of N, C and the spatial ones, after the axes that `jax.vmap` maps."""

    axes: tuple[int, ...]
    mapped: Shape = ()

    def to_channels_first(self, w: Writer, x: Tensor) -> Tensor:
        """Transposes to N, C, spatial, and makes the mapped axes a part of N."""
        count = len(self.mapped)
        order = (*range(count), *(count + axis for axis in self.axes))
        x = w.transpose(x, order)
        if not count:
            return x
        batch, *rest = x.shape[count:]
        return w.reshape(x, (math.prod(x.shape[:count]) * batch, *rest))

    def from_channels_first(self, w: Writer, x: Tensor, batch: int = 1) -> Tensor:
        """The inverse, for N images below the mapped axes."""
        count = len(self.mapped)
        if count:
            x = w.reshape(x, (*self.mapped, batch, *x.shape[1:]))
        back = (count + self.axes.index(axis) for axis in range(len(self.axes)))
        return w.transpose(x, (*range(count), *back))


def window_attributes(
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[tuple[int, int]],
    **others: Any,
) -> dict[str, Any]:
    """The attributes of a node with windows."""
    if any(min(pair) < 0 for pair in padding):
        raise Unwritable("has negative padding")
    pads = [pair[end] for end in (0, 1) for pair in padding]
    return {"strides": list(strides), "dilations": list(dilations), "pads": pads, **others}


def without_dilations(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a node that cannot dilate its windows."""
    if any(factor != 1 for factor in attributes.pop("dilations")):
        raise Unwritable("dilates the windows of a mean or a sum")
    return attributes
