"""Structures of a call of a convolution, and its sums."""

from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...format.tensors import to_numpy
from ...format.vectors import Vector
from .convolution import Windows
from .cross import Array, beyond, registers
from .output_structures import OutputView

IMAGE, FILTER = "InputTensor", "FilterTensor"


class ConvolutionView(OutputView):
    """The parts of a call that predicates read; an index has an entry for each output."""

    def __init__(self, vector: Vector) -> None:
        """Keep the vector."""
        super().__init__(vector)
        self.windows = Windows.of(vector.attributes)
        self.image, self.channel, *spatial = (each.reshape(-1) for each in np.indices(self.sizes))
        self.column = spatial[-1]
        self.row = spatial[0] if len(spatial) > 1 else 0 * spatial[0]

    @property
    def pixels(self) -> int:
        """The number of elements in a channel of an image."""
        return int(np.prod(self.sizes[2:]))

    @cached_property
    def pixel(self) -> Array:
        """The row-major index in a channel of an image."""
        return np.arange(self.count) % self.pixels

    @property
    def group(self) -> Array:
        """The group of each element."""
        return np.asarray(self.channel // (self.sizes[1] // self.windows.groups))

    @property
    def products(self) -> int:
        """The number of products in a sum."""
        return int(np.prod(self.vector.inputs[FILTER].sizes[1:]))

    def centred(self, name: str) -> Array:
        """Return the image or the filter without its zero point."""
        values = to_numpy(self.vector.inputs[name]).astype(np.int64)
        point = self.vector.inputs.get(name.replace("Tensor", "ZeroPointTensor"))
        own = np.zeros(1, np.int64) if point is None else to_numpy(point).astype(np.int64)
        return values - own.reshape((-1,) + (1,) * (values.ndim - 1))

    @cached_property
    def sums(self) -> Array:
        """The sums of products, not wrapped."""
        windows, filters = self.windows, self.centred(FILTER)
        around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
        padded = np.pad(self.centred(IMAGE), around)
        per_group, width = len(filters) // windows.groups, filters.shape[1]
        found = np.zeros(self.sizes, np.int64)
        for tap in product(*map(range, filters.shape[2:])):
            steps = zip(tap, self.sizes[2:], windows.strides, windows.dilations, strict=True)
            places = (slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, s, d in steps)
            at: Any = (slice(None), slice(None), *places)
            under = padded[at]
            for group in range(windows.groups):
                own = slice(group * per_group, (group + 1) * per_group)
                given = under[:, group * width : (group + 1) * width]
                tap_of_each: Any = (own, slice(None), *tap)
                found[:, own] += np.einsum("nc...,kc->nk...", given, filters[tap_of_each])
        return found.reshape(-1)


def wrapped(sums: Array) -> Array:
    """Return the low 32 bits of sums."""
    return np.asarray((sums + 2**31) % 2**32 - 2**31)


def _is(name: str, dtype: str) -> Any:
    return lambda view: view.dtype(name) == dtype


def has(name: str, least: int, most: int | None = None) -> Any:
    """Return whether a parameter has so many elements."""
    return lambda view: least <= view.length(name) <= (least if most is None else most)


MANY = 1 << 30
STRUCTURES: dict[str, Any] = {
    "rank 3": lambda view: len(view.sizes) == 3,
    "rank 4": lambda view: len(view.sizes) == 4,
    "one column": lambda view: view.columns == 1,
    "one row": lambda view: view.pixels == view.columns,
    "one image": lambda view: view.sizes[0] == 1,
    "one filter": lambda view: view.sizes[1] == 1,
    **beyond("columns", lambda view: view.column, (1, 2, 4, 8, 16, 32, 64)),
    **beyond("rows", lambda view: view.row, (1, 2, 4, 8, 16, 32, 64)),
    **beyond("pixels", lambda view: view.pixel, (1, 2, 4, 8, 16, 32, 64)),
    **beyond("images", lambda view: view.image, (1, 2, 4)),
    **beyond("filters", lambda view: view.channel, (1, 2, 4, 8, 16, 32, 64, 128)),
    **beyond("groups", lambda view: view.group, (1, 2, 4)),
    **registers("columns", lambda view: view.column, lambda view: view.columns, (8, 16, 32, 64)),
    **registers("pixels", lambda view: view.pixel, lambda view: view.pixels, (8, 16, 32, 64)),
    "depthwise": lambda view: view.windows.groups > 1 and view.vector.inputs[FILTER].sizes[1] == 1,
    "one tap": lambda view: int(np.prod(view.vector.inputs[FILTER].sizes[2:])) == 1,
    "several taps": lambda view: int(np.prod(view.vector.inputs[FILTER].sizes[2:])) > 1,
    "strides": lambda view: max(view.windows.strides) > 1,
    "dilations": lambda view: max(view.windows.dilations) > 1,
    "padding": lambda view: max(view.windows.start + view.windows.end) > 0,
    "products not by fours": lambda view: view.products % 4 != 0,
    "products by fours": lambda view: view.products % 4 == 0,
    **{
        f"{x} input, {w} filter": (
            lambda view, x=x, w=w: (view.dtype(IMAGE), view.dtype(FILTER)) == (x, w)
        )
        for x, w in product(("int8", "uint8"), repeat=2)
    },
    "no input zero point": has("InputZeroPointTensor", 0),
    "an input zero point": has("InputZeroPointTensor", 1),
    "no filter zero point": has("FilterZeroPointTensor", 0),
    "one filter zero point": has("FilterZeroPointTensor", 1),
    "filter zero points": has("FilterZeroPointTensor", 2, MANY),
}
