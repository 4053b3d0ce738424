"""Normalizations by statistics of the input; sums are in XLA's order."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import Tensor, operator
from dmlax.onnx.operators.values import by_channel


def _standardize(x: Array, axes: tuple[int, ...], epsilon: float, least: float = 0) -> Array:
    """Subtracts the mean, and divides by the deviation.

    Args:
      x: a tensor of floats.
      axes: those of the statistics.
      epsilon: is added to the variance.
      least: is added to the deviation.
    """
    centred = x - x.mean(axes, keepdims=True)
    variance = (centred * centred).mean(axes, keepdims=True)
    return centred / (jnp.sqrt(variance + epsilon) + least)


def _scale_channels(x: Array, scale: Tensor, bias: Tensor) -> Array:
    """Multiplies channels by factors, and adds offsets."""
    factor, offset = (by_channel(values, x.ndim).astype(x.dtype) for values in (scale, bias))
    return x * factor + offset


@operator("InstanceNormalization", 6, 22)
def instance_normalization(
    x: Array, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5
) -> Array:
    """Normalizes the channels of every image."""
    return _scale_channels(_standardize(x, tuple(range(2, x.ndim)), epsilon), scale, bias)


@operator("GroupNormalization", 18, 21)
def group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Array:
    """Normalizes groups of channels; opset 18 has a factor for every group."""
    channels = x.shape[1]
    if num_groups < 1 or channels % num_groups:
        raise ModelError(f"num_groups is {num_groups}, expected a divisor of {channels} channels")
    groups = x.astype(np.float32 if stash_type == 1 else x.dtype)
    groups = groups.reshape((x.shape[0], num_groups, -1))
    normal = _standardize(groups, (2,), epsilon).reshape(x.shape).astype(x.dtype)
    repeated = [jnp.repeat(values.ravel(), channels // values.size) for values in (scale, bias)]
    return _scale_channels(normal, *repeated)


@operator("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    """Normalizes over some axes."""
    return _standardize(x, axes, 0, 1e-9)


@operator("LpNormalization", 1, 22)
def lp_normalization(x: Array, *, axis: int = -1, p: Annotated[int, (1, 2)] = 2) -> Array:
    """Divides by the norm along an axis; rows of zeros stay zeros."""
    powers = jnp.abs(x) if p == 1 else x * x
    total = powers.sum(axis, keepdims=True)
    is_zero = total == 0
    total = jnp.where(is_zero, jnp.ones_like(total), total)
    return jnp.where(is_zero, jnp.zeros_like(x), x / (total if p == 1 else jnp.sqrt(total)))


@operator("LRN", 1, 13)
def local_response_normalization(
    x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """Divides by a power of the mean square of near channels."""
    ones, pads = [1] * x.ndim, [(0, 0)] * x.ndim
    window = [*ones[:1], size, *ones[2:]]
    pads[1] = ((size - 1) // 2, size // 2)
    total: Array = lax.reduce_window(x * x, np.zeros((), x.dtype), lax.add, window, ones, pads)
    return x * (bias + alpha / size * total) ** -beta
