"""Normalizations by statistics of the input, each of which has one order (`_core/sums.py`)."""

import functools
from collections.abc import Sequence
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.lib.array_utils import normalize_axis_tuple

from dmlax._core import ieee, sums
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import Tensor, operator
from dmlax.onnx.operators.values import by_channel


def _statistics(x: Array, axes: Sequence[int], epsilon: float) -> tuple[Array, Array, Array]:
    """The mean along axes from 0 on, the distances to it, and the deviation.

    Args:
      x: a tensor of floats.
      axes: those of the statistics.
      epsilon: is added to the variance.
    """
    mean = sums.mean(x, axes)
    centred = ieee.subtract(x, mean)
    variance = sums.mean(ieee.multiply(centred, centred), axes)
    return mean, centred, ieee.sqrt(ieee.add(variance, x.dtype.type(epsilon)))


def _scale_channels(x: Array, scale: Tensor, bias: Tensor) -> Array:
    """Multiplies channels by factors, and adds offsets."""
    factor, offset = (by_channel(values, x.ndim).astype(x.dtype) for values in (scale, bias))
    return ieee.add(ieee.multiply(x, factor), offset)


@operator("InstanceNormalization", 6, 22)
def instance_normalization(
    x: Array, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5
) -> Array:
    """Normalizes the channels of every image by a factor and an offset, as ONNX Runtime does."""
    wide = sums.wide(x)
    mean, _, deviation = _statistics(wide, range(2, x.ndim), epsilon)
    inverse = ieee.divide(jnp.ones_like(deviation), deviation)
    factor, bias = (by_channel(values, x.ndim).astype(wide.dtype) for values in (scale, bias))
    factor = ieee.multiply(inverse, factor)
    offset = ieee.subtract(bias, ieee.multiply(mean, factor))
    return sums.narrow(ieee.add(ieee.multiply(wide, factor), offset), x.dtype)


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
    _, centred, deviation = _statistics(groups, [2], epsilon)
    normal = ieee.divide(centred, deviation).reshape(x.shape).astype(x.dtype)
    repeated = [jnp.repeat(values.ravel(), channels // values.size) for values in (scale, bias)]
    return _scale_channels(normal, *repeated)


@operator("MeanVarianceNormalization", 9, 13)
def mean_variance_normalization(x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    """Normalizes over some axes."""
    _, centred, deviation = _statistics(x, sorted(normalize_axis_tuple(axes, x.ndim)), 0)
    normal: Array = ieee.divide(centred, ieee.add(deviation, x.dtype.type(1e-9)))
    return normal


@operator("LpNormalization", 1, 22)
def lp_normalization(x: Array, *, axis: int = -1, p: Annotated[int, (1, 2)] = 2) -> Array:
    """Divides by the norm along an axis; rows of zeros stay zeros."""
    wide = sums.wide(x)
    axes = normalize_axis_tuple(axis, x.ndim)
    total = functools.partial(sums.total, axes=axes, order=sums.IN_TURN)
    norm = total(jnp.abs(wide)) if p == 1 else sums.root_of_squares(wide, total)
    is_zero = norm == 0
    quotient = ieee.divide(wide, jnp.where(is_zero, jnp.ones_like(norm), norm))
    return ieee.narrow(jnp.where(is_zero, jnp.zeros_like(wide), quotient), x.dtype)


@operator("LRN", 1, 13)
def local_response_normalization(
    x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """Divides by a power of the mean square of near channels."""
    squares = ieee.multiply(x, x)
    padded = lax.pad(
        squares,
        np.zeros((), x.dtype),
        [(0, 0, 0), ((size - 1) // 2, size // 2, 0), *[(0, 0, 0)] * (x.ndim - 2)],
    )

    def term(padded: Array, i: Any) -> Array:
        return lax.dynamic_slice_in_dim(padded, i, x.shape[1], 1)

    total = sums.of_terms(padded, term, size)
    return x * (bias + alpha / size * total) ** -beta
