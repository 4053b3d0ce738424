"""The poolings in plain XLA: slices combined along one axis after another."""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, float_bits, tuning
from dmlax._core.arguments import Aval, is_static, structs
from dmlax._core.windows import dilated_size
from dmlax._operators.pooling import reference
from dmlax._operators.pooling.plan import Operands, PoolingPlan

_MOST_ROWS = 257  # whose bytes have sums of 16 bits
_NHWC = (0, 3, 1, 2)
_INT32 = np.dtype(np.int32)


def run(plan: PoolingPlan, operands: Operands) -> Array:
    """Pools by the plan's kind."""
    return (maximum if plan.options.kind == "max" else average)(plan, operands)


def average(plan: PoolingPlan, operands: Operands) -> Array:
    """Integer sums, and one division."""
    if plan.options.kind == "global_average":
        return reference.quantize_average(plan, operands, _sum_pixels(plan, operands))
    if plan.options.arithmetic == "float32":
        return reference.average(plan, operands)
    differences = reference.pad(plan, reference.differences(plan, operands), 0)
    return reference.quantize_average(plan, operands, _reduce_windows(plan, differences, jnp.add))


def _sum_pixels(plan: PoolingPlan, operands: Operands) -> Array:
    """The sum of a channel's differences; on a GPU of whole words, where these are channels."""
    output = structs(Aval(_INT32, plan.pooled_shape))
    of_words = {"cuda": functools.partial(sum_words, plan)} if _has_rows_of_words(plan) else {}
    return choice.by_platform(operands, output, functools.partial(_sum_differences, plan), of_words)


def _sum_differences(plan: PoolingPlan, operands: Operands) -> Array:
    """Sums of few pixels one by one, of many by XLA's reduction."""
    x = reference.differences(plan, operands)
    pixels = [x.shape[axis] for axis in plan.spatial_axes]
    is_last = plan.options.layouts.input[1] == x.ndim - 1
    if not (is_last and is_static(pixels) and math.prod(pixels) <= tuning.MOST_SINGLE_PIXELS):
        return x.sum(plan.spatial_axes, jnp.int32, keepdims=True)
    parts = [x]
    for axis in plan.spatial_axes:
        parts = [row for part in parts for row in jnp.split(part, part.shape[axis], axis)]
    return functools.reduce(jnp.add, parts)


def _has_rows_of_words(plan: PoolingPlan) -> bool:
    """True for many pixels in N, H, W, C, of whole words, whose columns' sums are 16 bits."""
    if not (plan.input.is_static and plan.input.size > 0 and plan.options.layouts.input == _NHWC):
        return False
    _, height, width, channels = plan.shape
    return channels % 4 == 0 and height <= _MOST_ROWS and height * width > tuning.MOST_SINGLE_PIXELS


def sum_words(plan: PoolingPlan, operands: Operands) -> Array:
    """The sum of a channel's differences: columns are summed as halves of words, then rows."""
    images, height, width, channels = plan.shape
    columns = operands.input.reshape(images, height, width * channels // 4, 4)
    words = float_bits.bitcast_apart(columns, jnp.uint32)
    lowest = np.iinfo(plan.input.dtype).min
    if lowest:
        words ^= np.uint32(0x80808080)
    halves = (((words >> bits) & np.uint32(0xFF00FF)).sum(1, jnp.uint32) for bits in (0, 8))
    even, odd = lax.optimization_barrier(tuple(halves))  # else a fusion sums words four times
    sums = jnp.stack([even & 0xFFFF, odd & 0xFFFF, even >> 16, odd >> 16], -1)
    total = sums.reshape(images, 1, width, channels).sum(2, jnp.int32, keepdims=True)
    zero = plan.spread(operands.input_zero_point)
    zero = jnp.int32(0) if zero is None else zero.astype(jnp.int32)
    lacking: Array = (zero - lowest) * (height * width)
    return total - lacking


def maximum(plan: PoolingPlan, operands: Operands) -> Array:
    """Maxima along one axis after another; on a GPU of whole words, where these are channels."""
    of_bytes = functools.partial(_maxima, plan)
    of_words = {"cuda": functools.partial(maxima_of_words, plan)} if _is_of_words(plan) else {}
    pooled = structs(Aval(plan.input.dtype, plan.pooled_shape))
    return reference.to_output(plan, choice.by_platform(operands.input, pooled, of_bytes, of_words))


def _is_of_words(plan: PoolingPlan) -> bool:
    """True where four channels are a word, and windows have few elements."""
    last = plan.options.layouts.input[1] == len(plan.shape) - 1
    if not (last and plan.input.is_static and plan.input.size > 0):
        return False
    return plan.shape[-1] % 4 == 0 and plan.windows.elements <= tuning.MOST_WORD_TAPS


def _maxima(plan: PoolingPlan, x: Array) -> Array:
    lowest = np.iinfo(x.dtype).min
    return _reduce_windows(plan, reference.pad(plan, x, lowest), jnp.maximum)


def maxima_of_words(plan: PoolingPlan, x: Array) -> Array:
    """Maxima of every four channels as a word: of its highest byte, then of the others moved there.

    What is below the highest byte counts only where that is equal. A tap is loaded once for all.
    """
    limits = np.iinfo(x.dtype)
    kind = jnp.int32 if limits.min else jnp.uint32
    words = float_bits.bitcast(x.reshape(*x.shape[:-1], x.shape[-1] // 4, 4), kind)
    padded = reference.pad(plan, words, np.full(4, limits.min, x.dtype).view(kind)[0])
    taps = _taps(plan, padded)
    pooled = jnp.zeros((), jnp.uint32)
    for byte in range(4):
        greatest = functools.reduce(jnp.maximum, [tap << (24 - 8 * byte) for tap in taps])
        highest = float_bits.bitcast(greatest, jnp.uint32) >> 24
        pooled |= highest << (8 * byte)
    return float_bits.bitcast(pooled, x.dtype).reshape(plan.pooled_shape)


def _taps(plan: PoolingPlan, padded: Array) -> list[Array]:
    """The elements of every place of a window, of all windows."""
    taps = [padded]
    for index, axis in enumerate(plan.spatial_axes):
        size, dilation = plan.windows.size[index], plan.windows.dilations[index]
        taps = [
            _slice_outputs(plan, tap, index, axis, place * dilation)
            for tap in taps
            for place in range(size)
        ]
    return taps


def _slice_outputs(plan: PoolingPlan, x: Array, index: int, axis: int, start: int) -> Array:
    """An element per output along a spatial axis: the start's, then a stride on."""
    stride = plan.windows.strides[index]
    span = dilated_size(plan.output_sizes[index], stride)
    return lax.slice_in_dim(x, start, start + span, stride, axis)


def _reduce_windows(
    plan: PoolingPlan, padded: Array, combine: Callable[[Array, Array], Array]
) -> Array:
    for index, axis in enumerate(plan.spatial_axes):
        size, dilation = plan.windows.size[index], plan.windows.dilations[index]
        parts = (
            _slice_outputs(plan, block, index, axis, start)
            for block, start in _blocks(padded, axis, size, dilation, combine)
        )
        padded = functools.reduce(combine, parts)
    return padded


def _blocks(
    x: Array, axis: int, size: int, dilation: int, combine: Callable[[Array, Array], Array]
) -> list[tuple[Array, int]]:
    """Arrays, and their first elements, that combined give windows of `size` along an axis.

    Those of a large window hold 1, 2, 4, ... elements, one for every set bit of its size.
    """
    if size <= tuning.MOST_SINGLE_TAPS:
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
