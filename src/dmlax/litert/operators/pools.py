"""Pools of images, channels last."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax.errors import UnsupportedError
from dmlax.litert.operators.table import Call, expect_rank, operator
from dmlax.onnx.errors import ModelError


def _windows(call: Call, x: Array) -> dict[str, Any]:
    """The options of `lax.reduce_window`."""
    expect_rank(x, 4)
    sizes = (call.filter_h, call.filter_w, call.stride_h, call.stride_w)
    if min(sizes) < 1:
        raise ModelError(f"its window and its strides are {sizes}")
    return {
        "window_dimensions": (1, *sizes[:2], 1),
        "window_strides": (1, *sizes[2:], 1),
        "padding": call.padding,
    }


@operator("MAX_POOL_2D")
def max_pool(call: Call, x: Array) -> Array:
    """The maximum of windows."""
    options = _windows(call, x)
    if call.is_quantized and x.dtype in (jnp.int8, jnp.uint8):
        shape = jnp.broadcast_shapes(x.shape)
        padding = lax.padtype_to_pads(
            shape, options["window_dimensions"], options["window_strides"], call.padding
        )
        y = dmlax.max_pooling(
            x,
            window_size=options["window_dimensions"][1:3],
            strides=options["window_strides"][1:3],
            start_padding=[before for before, _ in padding[1:3]],
            end_padding=[after for _, after in padding[1:3]],
            dimension_numbers="NHWC",
        )
        return jnp.clip(y, *call.limits()) if call.fused else y
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = lax.reduce_window(x, jnp.asarray(least, x.dtype), lax.max, **options)
    return jnp.clip(y, *call.limits()) if call.is_quantized else call.activate(y)


@operator("AVERAGE_POOL_2D")
def average_pool(call: Call, x: Array) -> Array:
    """The mean of windows, without padded pixels; that of bytes ignores scales and zero points."""
    options = _windows(call, x)
    is_float = not call.is_quantized
    wide = x if is_float else x.astype(jnp.int32)
    zero = jnp.zeros((), wide.dtype)
    total = lax.reduce_window(wide, zero, lax.add, **options)
    ones = jnp.ones((1, *x.shape[1:3], 1), wide.dtype)
    count = lax.reduce_window(ones, zero, lax.add, **options)
    if is_float:
        return call.activate(total / count)
    if call.resolver == "exact" and not call.info(0).has_parameters_of(call.output):
        raise UnsupportedError('its output has another scale, which arithmetic="exact" refuses')
    count = jnp.broadcast_to(count, total.shape)
    half = lax.div(count, jnp.int32(2))
    if call.resolver == "exact":
        floor = jnp.floor_divide(total, count)
        rest = 2 * (total - floor * count)
        is_up = (rest > count) | ((rest == count) & (floor - call.output.zero_point & 1 == 1))
        y = floor + is_up.astype(jnp.int32)
    else:
        y = lax.div(jnp.where(total > 0, total + half, total - half), count)
    return jnp.clip(y, *call.limits()).astype(x.dtype)


@operator("L2_POOL_2D")
def l2_pool(call: Call, x: Array) -> Array:
    """The root of the mean square of windows."""
    options, zero = _windows(call, x), jnp.zeros((), x.dtype)
    total = lax.reduce_window(x * x, zero, lax.add, **options)
    count = lax.reduce_window(jnp.ones((1, *x.shape[1:3], 1), x.dtype), zero, lax.add, **options)
    return call.activate(jnp.sqrt(total / count))
