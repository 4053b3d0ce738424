"""The poolings in plain XLA: slices combined along one axis after another."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core.windows import dilated_size
from dmlax._pooling import reference
from dmlax._pooling.plan import Pooling, PoolingPlan

_FEW = 8  # elements of a window that are combined one by one


def average(plan: PoolingPlan, operands: Pooling) -> Array:
    """Integer sums, and one division."""
    if plan.options.kind == "global_average" or plan.options.arithmetic == "float32":
        return reference.average(plan, operands)
    differences = reference.pad(plan, reference.differences(plan, operands), 0)
    return reference.quantize_average(plan, operands, _reduce_windows(plan, differences, jnp.add))


def maximum(plan: PoolingPlan, operands: Pooling) -> Array:
    """Maxima along one axis after another."""
    lowest = np.iinfo(operands.input.dtype).min
    pooled = _reduce_windows(plan, reference.pad(plan, operands.input, lowest), jnp.maximum)
    return reference.to_output(plan, pooled)


def _reduce_windows(
    plan: PoolingPlan, padded: Array, combine: Callable[[Array, Array], Array]
) -> Array:
    for index, axis in enumerate(plan.spatial_axes):
        size, stride, dilation = (each[index] for each in plan.windows[:3])
        span = dilated_size(plan.output_sizes[index], stride)
        parts = (
            lax.slice_in_dim(block, start, start + span, stride, axis)
            for block, start in _blocks(padded, axis, size, dilation, combine)
        )
        padded = functools.reduce(combine, parts)
    return padded


def _blocks(
    x: Array, axis: int, size: int, dilation: int, combine: Callable[[Array, Array], Array]
) -> list[tuple[Array, int]]:
    """Arrays, and where each begins, that combined give windows of `size` along an axis.

    Those of a large window hold 1, 2, 4, ... elements, one for each bit of its size.
    """
    if size <= _FEW:
        return [(x, tap * dilation) for tap in range(size)]
    blocks, start, width = [], 0, 1
    while True:
        if size & width:
            blocks.append((x, start))
            start += width * dilation
        if 2 * width > size:
            return blocks
        shift = width * dilation
        head = lax.slice_in_dim(x, 0, x.shape[axis] - shift, 1, axis)
        x = combine(head, lax.slice_in_dim(x, shift, x.shape[axis], 1, axis))
        width *= 2
