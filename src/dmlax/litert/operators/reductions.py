"""Sums, means and extremes over axes; places of extremes; real Fourier transforms."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import fixed_point, ieee
from dmlax._core import requantize as core
from dmlax._core.fixed_point import Multiplier
from dmlax.errors import UnsupportedError
from dmlax.litert.operators import requantize
from dmlax.litert.operators.requantize import less_zero
from dmlax.litert.operators.table import Call, Known, operator
from dmlax.onnx.errors import ModelError


def _axes(x: Array, axes: np.ndarray) -> tuple[int, ...]:
    places = [int(axis) for axis in axes.ravel()]
    if any(not -x.ndim <= axis < x.ndim for axis in places):
        raise ModelError(f"its axes are {places}, its input has rank {x.ndim}")
    return tuple(sorted({axis % x.ndim for axis in places}))


@operator("MEAN", "SUM")
def mean(name: str, call: Call, x: Array, axes: Known) -> Array:
    """The mean, or the sum, over axes."""
    places, keeps = _axes(x, axes), call.keep_dims
    count = math.prod(x.shape[axis] for axis in places) if name == "MEAN" else 1
    if not call.is_quantized:
        total = jnp.sum(x, places, keepdims=keeps)
        if name == "SUM":
            return total
        return total / count if x.dtype.kind == "f" else lax.div(total, jnp.full_like(total, count))
    source, output = call.info(0), call.output
    sums = jnp.sum(less_zero(x, source), places, keepdims=keeps)
    if call.resolver == "exact":
        scales, zero = (source.scale, output.scale), jnp.asarray(output.zero_point, output.dtype)
        if output.dtype.itemsize > 1:
            raise UnsupportedError('arithmetic="exact" has outputs of 8 bits only')
        x_scale, y_scale = map(jnp.asarray, scales)
        return core.quantize_average(
            sums, jnp.int32(count), x_scale, y_scale, zero, output.dtype, "exact"
        )
    if call.resolver == "xnnpack" and output.dtype.itemsize == 1:
        factor = source.scale / output.scale / np.float32(count)
        value = ieee.multiply(sums.astype(jnp.float32), factor)
        value = ieee.add(value, np.float32(output.zero_point))
        rounded = lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN)
        return jnp.clip(rounded, *call.limits()).astype(output.dtype)
    if name == "SUM":
        raise UnsupportedError("LiteRT's reference kernel of quantized sums wraps")
    by = Multiplier.of(source.real / output.real).divided(max(count, 1))
    return requantize.clamp(fixed_point.scale_half_away(sums, by), call)


@operator("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
def reduce(name: str, call: Call, x: Array, axes: Known) -> Array:
    """An extreme, a product, or whether any or all are true, over axes."""
    if name == "REDUCE_PROD" and call.is_quantized:
        raise UnsupportedError("its output has quantized integers, which are not computed")
    functions: dict[str, Callable[..., Array]] = {
        "REDUCE_MAX": jnp.max,
        "REDUCE_MIN": jnp.min,
        "REDUCE_PROD": jnp.prod,
        "REDUCE_ANY": jnp.any,
        "REDUCE_ALL": jnp.all,
    }
    y = functions[name](x, _axes(x, axes), keepdims=call.keep_dims)
    return y.astype(x.dtype)


@operator("ARG_MAX", "ARG_MIN")
def place_of_extreme(name: str, call: Call, x: Array, axis: Known) -> Array:
    """The first place of an extreme along an axis."""
    (place,) = _axes(x, axis)
    return (jnp.argmax if name == "ARG_MAX" else jnp.argmin)(x, place).astype(jnp.int32)


@operator("CUMSUM")
def cumulative_sum(call: Call, x: Array, axis: Known) -> Array:
    """Sums of the elements up to each one."""
    (place,) = _axes(x, axis)
    y = lax.cumsum(x, place, reverse=call.reverse)
    return y - x if call.exclusive else y


@operator("L2_NORMALIZATION")
def l2_normalization(call: Call, x: Array) -> Array:
    """Rows over their norms."""
    if call.is_quantized:
        raise UnsupportedError("its output has quantized integers, which are not computed")
    norm = jnp.sqrt(jnp.maximum(jnp.sum(x * x, -1, keepdims=True), 1e-6**2))
    return call.activate(x / norm)


@operator("RFFT2D")
def real_fourier_transform(call: Call, x: Array, sizes: Known) -> Array:
    """The Fourier transform of the last two axes, cut or padded to sizes."""
    return jnp.fft.rfft2(x, [int(size) for size in sizes]).astype(jnp.complex64)


@operator("COMPLEX_ABS", "REAL", "IMAG")
def of_complex(name: str, call: Call, x: Array) -> Array:
    """The magnitude or a part of complex numbers."""
    return {"COMPLEX_ABS": jnp.abs, "REAL": jnp.real, "IMAG": jnp.imag}[name](x)


@operator("LOG_SOFTMAX")
def log_softmax(call: Call, x: Array) -> Array:
    """The logarithm of softmax over the last axis."""
    if call.is_quantized:
        raise UnsupportedError("its output has quantized integers, which are not computed")
    difference = x - jnp.max(x, -1, keepdims=True)
    return difference - jnp.log(jnp.sum(jnp.exp(difference), -1, keepdims=True))
