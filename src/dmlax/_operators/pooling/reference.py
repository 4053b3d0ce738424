"""The definition of the poolings: every window's elements, one after another, row-major."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits, requantize
from dmlax._core.fixed_point import Multiplier, scale_half_away
from dmlax._core.windows import dilated_size, replace_axes
from dmlax._operators.pooling.plan import Operands, PoolingPlan


def run(plan: PoolingPlan, operands: Operands) -> Array:
    """Pools by the plan's kind."""
    return (maximum if plan.options.kind == "max" else average)(plan, operands)


def average(plan: PoolingPlan, operands: Operands) -> Array:
    """clamp(round(sum(input - zero point) * input scale / (output scale * n)) + zero point)."""
    if plan.options.kind == "global_average":
        total = differences(plan, operands).sum(plan.spatial_axes, jnp.int32, keepdims=True)
        return quantize_average(plan, operands, total)
    if plan.options.arithmetic == "float32":
        return average_float32(plan, operands)
    total = fold_windows(plan, pad(plan, differences(plan, operands), 0), jnp.add)
    return quantize_average(plan, operands, total)


def maximum(plan: PoolingPlan, operands: Operands) -> Array:
    """The greatest element of every window; a padded one is never greater."""
    lowest = operands.input.dtype.type(np.iinfo(operands.input.dtype).min)
    padded = pad(plan, operands.input, lowest)
    return to_output(plan, fold_windows(plan, padded, jnp.maximum))


def average_float32(plan: PoolingPlan, operands: Operands) -> Array:
    """ONNX Runtime's recipe: float32 sums in this order, the zero point before the rounding."""
    scale = plan.spread(operands.input_scale)
    reals = float_bits.multiply(differences(plan, operands).astype(jnp.float32), scale)
    total = fold_windows(plan, pad(plan, reals, 0), float_bits.add)
    counts = jnp.maximum(window_counts(plan), 1).astype(jnp.float32)
    quotient = float_bits.divide(
        float_bits.divide(total, counts), plan.spread(operands.output_scale)
    )
    zero_point = plan.spread(operands.output_zero_point)
    zero = jnp.float32(0) if zero_point is None else zero_point.astype(jnp.float32)
    return to_output(plan, requantize.quantize_float32(quotient + zero, None, plan.output.dtype))


def quantize_average(plan: PoolingPlan, operands: Operands, total: Array) -> Array:
    """Divides integer sums by their counts, and quantizes."""
    if plan.options.requantization is not None:
        scales = plan.spread(operands.input_scale), plan.spread(operands.output_scale)
        by = Multiplier.of_quotient(scales[0], jnp.float32(1), scales[1])
        counts = jnp.maximum(window_counts(plan), 1)
        rounded = jnp.clip(scale_half_away(total, by.divided(counts)), -512, 512)
        zero_point = plan.spread(operands.output_zero_point)
        return to_output(plan, requantize.saturate(rounded, zero_point, plan.output.dtype))
    result = requantize.quantize_average(
        total,
        window_counts(plan),
        plan.spread(operands.input_scale),
        plan.spread(operands.output_scale),
        plan.spread(operands.output_zero_point),
        plan.output.dtype,
        plan.options.arithmetic,
    )
    return to_output(plan, result)


def differences(plan: PoolingPlan, operands: Operands) -> Array:
    """The input less its zero point, in int32."""
    x: Array = operands.input.astype(jnp.int32)
    zero_point: Array | None = plan.spread(operands.input_zero_point)
    return x if zero_point is None else x - zero_point.astype(jnp.int32)


def pad(plan: PoolingPlan, x: Array, value: Array | int) -> Array:
    """The spatial axes with their padding."""
    padding = ((start, end, 0) for start, end in plan.windows.padding)
    edges = replace_axes(((0, 0, 0),) * x.ndim, plan.spatial_axes, padding)
    return lax.pad(x, jnp.asarray(value, x.dtype), edges)


def window_counts(plan: PoolingPlan) -> Array:
    """The elements of a window that count, which broadcast to the output."""
    if plan.counts_padding:
        return jnp.asarray(plan.windows.elements, jnp.int32)
    counts: Array = jnp.ones((), jnp.int32)
    for index, axis in enumerate(plan.spatial_axes):
        shape = replace_axes((1,) * len(plan.shape), [axis], [plan.output_sizes[index]])
        counts = counts * _axis_counts(plan, index).reshape(shape)
    return counts


def _axis_counts(plan: PoolingPlan, index: int) -> Array:
    """Along one axis, the taps k with 0 <= start + k * dilation < size."""
    of, size = plan.windows, plan.shape[plan.spatial_axes[index]]
    dilation = of.dilations[index]
    start = jnp.arange(plan.output_sizes[index], dtype=jnp.int32) * of.strides[index]
    start = start - of.padding[index][0]
    last = jnp.minimum((size - 1 - start) // dilation, of.size[index] - 1)
    return jnp.maximum(last + 1 + jnp.minimum(start, 0) // dilation, 0)


def fold_windows(
    plan: PoolingPlan, padded: Array, combine: Callable[[Array, Array], Array]
) -> Array:
    """Combines the elements of every window of the padded input, row-major."""
    of = plan.windows
    spans = map(dilated_size, plan.output_sizes, of.strides)
    sizes = replace_axes(padded.shape, plan.spatial_axes, spans)
    steps = replace_axes((1,) * padded.ndim, plan.spatial_axes, of.strides)

    def elements(tap: Array) -> Array:
        starts = [jnp.zeros_like(tap)] * padded.ndim
        for index in reversed(range(len(of.size))):
            starts[plan.spatial_axes[index]] = tap % of.size[index] * of.dilations[index]
            tap = tap // of.size[index]
        block = lax.dynamic_slice(padded, starts, sizes)
        return lax.slice(block, (0,) * padded.ndim, block.shape, steps)

    first = elements(jnp.int32(0))
    result: Array = lax.fori_loop(
        1, of.elements, lambda tap, result: combine(result, elements(tap)), first
    )
    return result


def to_output(plan: PoolingPlan, pooled: Array) -> Array:
    """Transposes to the output's layout."""
    return pooled.transpose(plan.to_output_layout)
