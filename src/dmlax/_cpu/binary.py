"""The kernels on two quantized tensors in C++ (`binary.cc`), which broadcasts them itself."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from dmlax._core.quantized_sum import Quantized
from dmlax._core.requantize import Arithmetic


def add(
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """`quantized_sum` in one call; `vmap` puts its axes before each operand's."""
    return _call("dmlax_quantized_add", a, b, scale, zero_point, dtype, arithmetic)


def multiply(
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """The product likewise."""
    return _call("dmlax_quantized_multiply", a, b, scale, zero_point, dtype, arithmetic)


def _call(
    target: str,
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    shape = jnp.broadcast_shapes(a.values.shape, b.values.shape)
    rank = len(shape)
    points = (a.zero_point, a.values.dtype), (b.zero_point, b.values.dtype), (zero_point, dtype)
    zero_points = [jnp.zeros((), own) if point is None else point for point, own in points]
    parameters = a.scale, b.scale, scale, *zero_points
    call = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(shape, dtype), vmap_method="expand_dims")
    return call(
        *(x.values.reshape((1,) * (rank - x.values.ndim) + x.values.shape) for x in (a, b)),
        *(x.reshape((1,) * rank) for x in parameters),
        exact=arithmetic == "exact",
    )
