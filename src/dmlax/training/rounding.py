"""Rounding that passes gradients: the straight-through estimator, and LSQ for scales."""

import functools
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from dmlax._core import compat, ieee
from dmlax._core.arguments import expand_rank
from dmlax._core.requantize import Arithmetic
from dmlax._operators.byte_lookup.api import quantized_lookup
from dmlax._operators.quantize.api import (
    element_wise_dequantize_linear,
    element_wise_quantize_linear,
)

T = TypeVar("T")
Limits = tuple[int, int]  # the least and the greatest quantized value
_IDENTITY = np.arange(256, dtype=np.uint8)
_IS_NAN = np.uint8(2)  # 1 marks a value inside of the clamp, 0 one outside
_FOUR_BITS = {"int4": (-8, 7), "uint4": (0, 15)}  # NumPy does not know them


def limits_of(dtype: np.dtype) -> Limits:
    """The least and the greatest value of an integer dtype."""
    if dtype.name in _FOUR_BITS:
        return _FOUR_BITS[dtype.name]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def quantize(
    value: Array,
    scale: Array,
    zero_point: Array | None,
    dtype: np.dtype,
    arithmetic: Arithmetic,
    axis: int | None = None,
) -> Array:
    """Quantizes floats of any rank, without a derivative."""
    of_rank, scale, zero_point = stopped((value.reshape(value.shape or (1,)), scale, zero_point))
    quantized = element_wise_quantize_linear(
        of_rank, scale, zero_point, axis=axis, output_dtype=dtype, arithmetic=arithmetic
    )
    return quantized.reshape(value.shape)


def stopped(values: T) -> T:
    """Constants for derivatives; NumPy's arrays stay, as operators read their values."""
    constants: T = jax.tree.map(
        lambda x: lax.stop_gradient(x) if isinstance(x, Array) else x, values
    )
    return constants


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def dequantize(
    limits: Limits,
    value: Array,
    quantized: Array,
    scale: Array,
    zero_point: Array | None,
    is_nan: Array,
) -> Array:
    """Dequantizes integers; the derivative is that of rounding and clamping `value`.

    Args:
      limits: the range to which `quantized` was clamped.
      value: float32, which the integers stand for; only derivatives read it.
      quantized: integers of the value's shape.
      scale: float32; it and the zero point broadcast to the value.
      zero_point: of the dtype of `quantized`, or None for 0.
      is_nan: where the value is NaN, which no integer stands for.
    """
    of_rank = quantized.reshape(quantized.shape or (1,))
    floats = element_wise_dequantize_linear(of_rank, scale, zero_point).reshape(quantized.shape)
    return compat.with_nan(floats, is_nan)


def dequantize_to(
    value: Array,
    quantized: Array,
    scale: Array,
    zero_point: Array | None = None,
    is_nan: Array | None = None,
) -> Array:
    """Dequantizes integers to which `value` was rounded, and clamped to their dtype's range."""
    is_nan = jnp.isnan(value) if is_nan is None else is_nan
    return dequantize(limits_of(quantized.dtype), value, quantized, scale, zero_point, is_nan)


def _derivative(
    limits: Limits, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    """The tangent is zero in `value` where the clamp changed the rounded value; NaN where it is."""
    value, quantized, scale, zero_point, _ = primals
    of_value, _, of_scale, _, _ = tangents
    zero = 0.0 if zero_point is None else _expand(zero_point.astype(jnp.float32), value)
    steps = value / _expand(scale, value)
    rounded = jnp.rint(steps) + zero
    inside = ((rounded >= limits[0]) & (rounded <= limits[1])).astype(jnp.uint8)
    place = _stored(jnp.where(jnp.isnan(value), _IS_NAN, inside))
    tangent = jnp.zeros_like(value)
    if not isinstance(of_value, SymbolicZero):
        factor = jnp.where(place == _IS_NAN, jnp.float32(jnp.nan), 1)
        tangent += lax.select(place > 0, of_value * factor, tangent)
    if not isinstance(of_scale, SymbolicZero):
        level = quantized.astype(jnp.float32) - zero
        tangent += (level - jnp.where(place > 0, steps, 0)) * _expand(of_scale, value)
    return dequantize(limits, *primals), tangent


dequantize.defjvp(_derivative, symbolic_zeros=True)


def _stored(place: Array) -> Array:
    """Keeps bytes: XLA would keep the floats, and compute the bytes in the backward.

    XLA:CPU drops barriers before it fuses, and does not fuse through a kernel.
    """

    def through_kernel(place: Array) -> Array:
        return quantized_lookup(place, _IDENTITY)

    stored: Array = lax.platform_dependent(
        place, cpu=through_kernel, cuda=through_kernel, default=lax.optimization_barrier
    )
    return stored


def _expand(parameter: Array, value: Array) -> Array:
    return expand_rank(jnp.asarray(parameter), value.ndim)


def bias_scale(input_scale: Array, filter_scale: Array) -> Array:
    """The product of two scales, rounded to float32 on every platform."""
    rank = max(np.ndim(input_scale), np.ndim(filter_scale))
    return ieee.multiply(*(expand_rank(x, rank) for x in (input_scale, filter_scale)))


def round_bias(bias: Array, scale: Array) -> Array:
    """The float32 quotient `bias / scale`, rounded half to even and saturated to int32."""
    rounded = jnp.rint(ieee.divide(bias, expand_rank(scale, bias.ndim)))
    low, high = limits_of(np.dtype(np.int32))
    integers = jnp.where(jnp.abs(rounded) < 2.0**31, rounded, 0).astype(jnp.int32)
    saturated = jnp.where(rounded >= 2.0**31, jnp.int32(high), integers)
    return jnp.where(rounded <= -(2.0**31), jnp.int32(low), saturated)
