"""PreparedFilter: a packed filter as a pytree, whose static part is plain values."""

import functools
import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._convolution.plan import FilterShape, inverse
from dmlax._core import compat
from dmlax._core.arguments import Aval, Rules
from dmlax._core.host_arrays import are_equal, to_device, to_host

VERSION = 1  # of the packed form; another one must not read it

_RULES = Rules("PreparedFilter")


class Prepared(NamedTuple):
    """The arrays of a prepared filter."""

    packed: Array
    """int8 (K, taps * channels): tap-major, uint8 re-based by 128."""
    sums: Array
    """int32 (K,): the sum of each packed row."""
    zero_point: Array | None
    """Of the filter's dtype, () or (K,); None is 0."""


@jax.tree_util.register_pytree_with_keys_class
class PreparedFilter:
    """A packed filter, made by `prepare_filter`; use it as the `filter` of a convolution.

    A pytree whose leaves are its arrays. Everything else is static, so that it stacks, scans,
    vmaps, jits, exports and saves. Stacked, it still has the dtype and the shape of one filter.

    Two are equal if their static parts are, and their arrays element by element. Like an array it
    has no hash; `jax.tree.structure` gives a static part that has one.
    """

    __module__ = "dmlax"  # the path that a pickle holds
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, arrays: Prepared, filter_shape: FilterShape) -> None:
        self.arrays = arrays
        self.filter_shape = filter_shape

    @property
    def packed(self) -> Array:
        """The rows that every implementation reads, of int8 and of shape (K, taps * channels)."""
        return self.arrays.packed

    @property
    def sums(self) -> Array:
        """The sum of each row, of int32 and of shape (K,)."""
        return self.arrays.sums

    @property
    def zero_point(self) -> Array | None:
        """The filter's zero point, of its dtype and of shape () or (K,); None is 0."""
        return self.arrays.zero_point

    @property
    def dtype(self) -> np.dtype:
        """The filter's dtype, int8 or uint8."""
        return self.filter_shape.filter.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The filter's shape, in its own layout."""
        return self.filter_shape.filter.shape

    @property
    def layout(self) -> str:
        """The order of the filter's axes, as "OIHW"."""
        return self.filter_shape.layout

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return self.filter_shape.group_count

    @property
    def dimension_numbers(self) -> lax.ConvDimensionNumbers:
        """The layouts of the input, the filter and the output, as `jax.lax` spells them."""
        return lax.ConvDimensionNumbers(*self.filter_shape.layouts)

    def unpack(self) -> Array:
        """Returns the filter that was prepared, bit for bit."""
        filter: Array = _unpack(self.filter_shape, self.packed)
        return filter

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[Any, ...]]:
        """The arrays by name; everything else is static."""
        keys = map(jax.tree_util.GetAttrKey, Prepared._fields)
        return tuple(zip(keys, self.arrays, strict=True)), _static(self.filter_shape)

    def tree_flatten(self) -> tuple[Prepared, tuple[Any, ...]]:
        """The arrays; everything else is static."""
        return self.arrays, _static(self.filter_shape)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Any) -> "PreparedFilter":
        """The inverse of `tree_flatten`."""
        return cls(Prepared(*arrays), _filter_shape(static))

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and NumPy arrays, so that a pickle names no private module."""
        arrays = {name: to_host(leaf) for name, leaf in self.arrays._asdict().items()}
        return {"static": _static(self.filter_shape), **arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        static = state.pop("static")
        self.filter_shape = _filter_shape(static)
        self.arrays = Prepared(**{name: to_device(leaf) for name, leaf in state.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreparedFilter):
            return NotImplemented
        same = self.filter_shape == other.filter_shape
        return same and all(map(are_equal, self.arrays, other.arrays))

    def __repr__(self) -> str:
        return f"PreparedFilter({self.filter_shape})"


@functools.lru_cache(maxsize=4096)
def _static(shape: FilterShape) -> tuple[Any, ...]:
    """A shape as plain values: they outlive a move of any class, in a pickle or an export."""
    return VERSION, shape.filter.dtype.name, shape.filter.shape, shape.layouts, shape.group_count


@functools.lru_cache(maxsize=4096)
def _filter_shape(static: tuple[Any, ...]) -> FilterShape:
    """Reads what `_static` gave; refuses another version's."""
    version, dtype, sizes, layouts, group_count = static
    remedy = "prepare the filter again with this version of dmlax"
    _RULES.expect(
        version == VERSION, "option", "version", f"is {version}, expected {VERSION}: {remedy}"
    )
    return FilterShape(Aval(np.dtype(dtype), sizes), layouts, group_count)


def _encode(static: tuple[Any, ...]) -> bytes:
    return json.dumps(static).encode()


def _decode(data: bytes) -> tuple[Any, ...]:
    version, dtype, sizes, layouts, group_count = json.loads(bytes(data))
    static = version, dtype, tuple(sizes), tuple(map(tuple, layouts)), group_count
    _filter_shape(static)
    return static


# JAX shows this name where it cannot load an export, which is before dmlax is imported.
compat.serialise_pytree(
    PreparedFilter, "dmlax.PreparedFilter, which `import dmlax` defines", _encode, _decode
)


@functools.partial(jax.jit, static_argnums=0)
def _unpack(shape: FilterShape, packed: Array) -> Array:
    rows = packed.reshape(shape.outputs, *shape.kernel, shape.channels)
    if shape.filter.dtype == jnp.uint8:
        rows = lax.bitcast_convert_type(rows, jnp.uint8) ^ jnp.uint8(128)
    output, channels, *spatial = shape.specification
    return jnp.transpose(rows, inverse((output, *spatial, channels)))
