"""PreparedFilter: a packed filter as a pytree."""

import functools
from typing import Any

import jax
import numpy as np
from jax import Array, lax

from dmlax._convolution.plan import FilterShape, inverse
from dmlax._core import prepared_weights
from dmlax._core.arguments import Aval
from dmlax._core.byte_packing import from_int8
from dmlax._core.panels import Packing, unpack_panels


class PreparedFilter(prepared_weights.PreparedWeights[FilterShape]):
    """A packed filter, made by `prepare_filter`; use it as the `filter` of a convolution.

    A pytree whose leaves are its arrays: `packed`, int8 (K, taps * channels), tap-major, or
    panels; `sums`, int32 (K,); `zero_point`, None or of the filter's dtype, () or (K,). Everything
    else is static, so that it stacks, scans, vmaps, jits, exports and saves. Stacked, it still has
    the dtype and the shape of one filter.

    Two are equal if their static parts are, and their arrays element by element. Like an array it
    has no hash; `jax.tree.structure` gives a static part that has one.
    """

    __module__ = "dmlax"  # the path that a pickle holds

    VERSION = 2
    _NOUN = "filter"

    @property
    def dtype(self) -> np.dtype:
        """The filter's dtype, int8 or uint8."""
        return self.weights.filter.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The filter's shape, in its layout."""
        return self.weights.filter.shape

    @property
    def layout(self) -> str:
        """The order of the filter's axes, as "OIHW"."""
        return self.weights.layout

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return self.weights.group_count

    @property
    def packing(self) -> Packing:
        """The order of the bytes of `packed`: "rows" or "panels"."""
        return self.weights.packing

    @property
    def dimension_numbers(self) -> lax.ConvDimensionNumbers:
        """The layouts of the input, the filter and the output, as `jax.lax` spells them."""
        return lax.ConvDimensionNumbers(*self.weights.layouts)

    def unpack(self) -> Array:
        """Returns the filter that was prepared, bit for bit."""
        filter: Array = _unpack(self.weights, self.packed)
        return filter

    @staticmethod
    def unpack_rows(weights: FilterShape, packed: Array) -> Array:
        """The inverse of packing."""
        if weights.packing == "panels":
            packed = unpack_panels(weights.panels, packed)
        rows = packed.reshape(weights.outputs, *weights.kernel, weights.channels)
        output, channels, *spatial = weights.specification
        filter = rows.transpose(inverse((output, *spatial, channels)))
        unpacked: Array = from_int8(filter, weights.filter.dtype)
        return unpacked

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def to_plain(weights: FilterShape) -> tuple[Any, ...]:
        """The dtype's name, the sizes, the layouts, the groups and the packing."""
        filter, *rest = weights
        return filter.dtype.name, filter.shape, *rest

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def from_plain(
        dtype: str,
        sizes: tuple[int, ...],
        layouts: tuple[tuple[int, ...], ...],
        group_count: int,
        packing: Packing,
    ) -> FilterShape:
        """The inverse of `to_plain`."""
        return FilterShape(Aval(np.dtype(dtype), sizes), layouts, group_count, packing)


prepared_weights.register(PreparedFilter)
_unpack = jax.jit(PreparedFilter.unpack_rows, static_argnums=0)
