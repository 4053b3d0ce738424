"""Prepares a filter once: packed for every lowering, with its sums."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from dmlax._convolution.plan import (
    Convolution,
    ConvolutionPlan,
    FilterShape,
    check_filter_zero_point,
    filter_shape,
)
from dmlax._core import compat
from dmlax._core.arguments import Rules, aval_of
from dmlax._core.byte_packing import pad_end, round_up_to_word

_RULES = Rules("prepare_filter")


class Prepared(NamedTuple):
    """The arrays of a prepared filter."""

    packed: Array
    """int8 (K, taps * channels): tap-major, uint8 re-based by 128."""
    sums: Array
    """int32 (K,): the sum of each packed row."""
    zero_point: Array | None
    """As given, of the filter's dtype, () or (K,)."""


@jax.tree_util.register_pytree_with_keys_class
class PreparedFilter:
    """A packed filter, made by `prepare_filter`; use it as the `filter` of a convolution.

    A pytree whose static part is the filter's shape and options, so that it stacks, scans, vmaps,
    jits, exports and saves.
    """

    def __init__(self, arrays: Prepared, shape: FilterShape) -> None:
        self.arrays = arrays
        self.shape = shape

    def tree_flatten_with_keys(self) -> tuple[Any, FilterShape]:
        """The arrays by name; the shape is static."""
        keys = map(jax.tree_util.GetAttrKey, Prepared._fields)
        return tuple(zip(keys, self.arrays, strict=True)), self.shape

    def tree_flatten(self) -> tuple[Prepared, FilterShape]:
        """The arrays; the shape is static."""
        return self.arrays, self.shape

    @classmethod
    def tree_unflatten(cls, shape: FilterShape, arrays: Any) -> "PreparedFilter":
        """The inverse of `tree_flatten`."""
        return cls(Prepared(*arrays), shape)

    def __repr__(self) -> str:
        return f"PreparedFilter({self.shape})"


compat.serialise_pytree(
    PreparedFilter, "dmlax.PreparedFilter", FilterShape.encode, FilterShape.decode
)


def prepare_filter(
    filter: ArrayLike,
    /,
    *,
    filter_zero_point: ArrayLike | None = None,
    group_count: int = 1,
    dimension_numbers: Any = ("NCHW", "OIHW", "NCHW"),
) -> PreparedFilter:
    """Packs a convolution's filter and sums its rows, once for many calls.

    Args:
      filter: int8 or uint8, shaped as `dimension_numbers` says, by default
        (K, C / group_count, height, width).
      filter_zero_point: of the filter's dtype, one value or one per output channel; default 0.
      group_count: groups, a static integer that divides K.
      dimension_numbers: as for the convolution; only the filter's matters here.

    Returns:
      A `PreparedFilter`, a pytree: use it as `filter`, and leave out the options given here.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (FilterTensor,
        FilterZeroPointTensor, GroupCount), `option` (GroupCount, dimension_numbers).

    DirectML:
      None: the counterpart of a tensor OWNED_BY_DML, packed when the operator is initialised.

    Lowering:
      Plain XLA everywhere; every lowering of the convolutions reads the result.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> dmlax.prepare_filter(jnp.ones((8, 3, 5, 5), jnp.int8))
      PreparedFilter(int8[8,3,5,5] OIHW, group_count 1)
    """
    array = jnp.asarray(_RULES.to_array("FilterTensor", filter))
    group_count = _RULES.to_integer("GroupCount", group_count, 1)
    shape = filter_shape(_RULES, aval_of(array), group_count, dimension_numbers)
    zero_point = _RULES.to_parameter("FilterZeroPointTensor", filter_zero_point, array.dtype)
    zero_aval = None if zero_point is None else aval_of(zero_point)
    check_filter_zero_point(_RULES, shape, zero_aval)
    return PreparedFilter(pack(shape, array, zero_point), shape)


def pack(shape: FilterShape, filter: Array, zero_point: Array | None) -> Prepared:
    """Packs a filter into rows of taps, each tap's channels together."""
    output, channels, *spatial = shape.specification
    rows = jnp.transpose(filter, (output, *spatial, channels)).reshape(shape.outputs, -1)
    packed = to_int8(rows)
    sums = packed.sum(axis=1, dtype=jnp.int32)
    return Prepared(packed, sums, None if zero_point is None else as_parameter(zero_point))


def pack_constant(shape: FilterShape, filter: Any, zero_point: Array | None) -> Prepared:
    """Packs a filter that a program holds: to fold the sums of its rows takes XLA seconds."""
    on_host: Any = np.asarray(filter)
    with jax.ensure_compile_time_eval():
        packed = pack(shape, on_host, None)
    return packed._replace(zero_point=None if zero_point is None else as_parameter(zero_point))


def as_prepared(plan: ConvolutionPlan, operands: Convolution) -> Prepared:
    """Returns the call's filter, prepared beforehand or now."""
    if plan.prepared:
        assert isinstance(operands.filter, Prepared)
        return operands.filter
    return pack(plan.filter, operands.filter, operands.filter_zero_point)


def pad_channels(
    plan: ConvolutionPlan, operands: Convolution, x: Array, filter: Prepared
) -> tuple[Array, Prepared]:
    """Pads a group's channels to a multiple of 4, which adds nothing to any output.

    The input's channels, which are last, are padded with zero points, the filter's with zeros.
    """
    shape = plan.filter
    channels = round_up_to_word(shape.channels)
    missing = channels - shape.channels
    if not missing:
        return x, filter
    groups = x.reshape(*x.shape[:-1], shape.group_count, shape.channels)
    padded = pad_end(groups, missing, operands.input_zero_point)
    rows = filter.packed.reshape(shape.outputs, shape.taps, shape.channels)
    packed = pad_end(rows, missing).reshape(shape.outputs, shape.taps * channels)
    x = padded.reshape(*x.shape[:-1], shape.group_count * channels)
    return x, filter._replace(packed=packed)


def real_values(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """The filter less its zero point, as int32 in O, I, spatial order."""
    filter = as_prepared(plan, operands)
    values = filter.packed.astype(jnp.int32) - zero_of(plan.filter, filter).reshape(-1, 1)
    shape = (plan.filter.outputs, *plan.filter.kernel, plan.filter.channels)
    return jnp.moveaxis(values.reshape(shape), -1, 1)


def to_int8(x: Array) -> Array:
    """Converts uint8 by subtracting 128, which flips one bit; int8 stays as it is."""
    if x.dtype == jnp.int8:
        return x
    return lax.bitcast_convert_type(x ^ jnp.uint8(128), jnp.int8)


def zero_of(shape: FilterShape, filter: Prepared) -> Array:
    """The value that stands for 0 in the packed rows: int32 () or (K,)."""
    return as_int32(filter.zero_point) - rebase_of(shape.filter.dtype)


def rebase_of(dtype: np.dtype) -> int:
    """The number that `to_int8` subtracts."""
    return 128 if dtype == jnp.uint8 else 0


def as_parameter(x: Array) -> Array:
    """Reshapes one value to (), one per channel to (K,), from any shape of a parameter."""
    return x.reshape(()) if x.size == 1 else x.reshape(-1)


def as_int32(parameter: Array | None) -> Array:
    """Converts a zero point or bias to int32; an absent one is 0."""
    return jnp.int32(0) if parameter is None else as_parameter(parameter).astype(jnp.int32)
