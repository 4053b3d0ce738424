"""Convolution in C++ (`convolution.cc`): rows of the filter times packed panels of outputs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import as_prepared, to_rows
from dmlax._core.prepared_weights import Prepared
from dmlax._cpu import library

_TARGET = "dmlax_convolution"
_MOST_PLANES = 2**31  # bytes that one image's padded planes may take
_MOST_SLACK = 256  # bytes after each of an image's sub-images
_MOST_SIZE = 2**31  # of anything in `windows`


def run(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    options = plan.options
    input_order, input_last = _nearest(options.input_layout)
    output_order, output_last = _nearest(options.output_layout)
    x = jnp.transpose(operands.input, [options.input_layout[i] for i in input_order])
    sizes = (plan.batch, plan.filter.outputs, *plan.output_sizes)
    output = jax.ShapeDtypeStruct(
        _of_rank_4(tuple(sizes[i] for i in output_order), output_last), options.output_dtype
    )
    call = jax.ffi.ffi_call(_TARGET, output, vmap_method="expand_dims")
    y = call(
        x.reshape(_of_rank_4(x.shape, input_last)),
        *_parameters(plan, operands),
        windows=np.asarray(_windows(plan), np.int64),
        groups=np.int64(plan.filter.group_count),
        panels=plan.filter.packing == "panels",
        input_last=input_last,
        output_last=output_last,
        filter_unsigned=plan.filter.filter.dtype == jnp.uint8,
        exact=options.arithmetic == "exact",
    )
    y = y.reshape([sizes[i] for i in output_order])
    return jnp.transpose(y, [output_order.index(i) for i in inverse(options.output_layout)])


def why_not(plan: ConvolutionPlan, platform: str) -> str | None:
    """Refuses what would take too much scratch memory."""
    if why := library.why_not(platform):
        return why
    if max(*plan.input.shape, *_windows(plan)) >= _MOST_SIZE:
        return f"a size, stride, dilation or padding is {_MOST_SIZE:,} or more"
    if (planes := _plane_bytes(plan)) > _MOST_PLANES:
        return f"an image's padded planes take {planes:,} bytes of scratch, over {_MOST_PLANES:,}"
    return None


def _nearest(layout: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Batch first, channels next or last: N, C, spatial as indices, and whether they are last."""
    spatial = tuple(range(2, len(layout)))
    last = layout[1] == len(layout) - 1
    return ((0, *spatial, 1) if last else (0, 1, *spatial)), last


def _of_rank_4(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """One spatial axis is a width, of height 1."""
    at = 1 if last else 2
    return shape if len(shape) == 4 else (*shape[:at], 1, *shape[at:])


def _windows(plan: ConvolutionPlan) -> tuple[int, ...]:
    """Kernel, strides, dilations, start and end padding, two of each."""
    options = plan.options
    start, end = zip(*options.padding, strict=True)
    rows = [plan.filter.kernel, options.strides, options.dilations, start, end]
    if len(plan.output_sizes) == 1:
        rows = [(one, *row) for one, row in zip((1, 1, 1, 0, 0), rows, strict=True)]
    return tuple(value for row in rows for value in row)


def _parameters(plan: ConvolutionPlan, operands: Convolution) -> tuple[Array, ...]:
    """The prepared filter and every parameter, flat; absent ones are empty."""
    packed, sums, filter_zero_point = _pack_filter(plan, operands)
    output_zero = np.uint8 if not plan.quantized else plan.options.output_dtype
    filter, input = plan.filter.filter.dtype, plan.input.dtype
    dtypes = [jnp.int32, filter, input, jnp.int32, *3 * (jnp.float32,)]
    values: list[Any] = [
        sums,
        filter_zero_point,
        operands.input_zero_point,
        operands.bias,
        operands.input_scale,
        operands.filter_scale,
        operands.output_scale,
        operands.output_zero_point,
    ]
    flat = [
        jnp.zeros(0, dtype) if value is None else value.reshape(-1)
        for value, dtype in zip(values, [*dtypes, output_zero], strict=True)
    ]
    return packed, *flat


def _pack_filter(plan: ConvolutionPlan, operands: Convolution) -> tuple[Array, Any, Any]:
    """Returns rows or panels, their sums and zero points; the handler sums rows without sums."""
    filter = operands.filter
    if not isinstance(filter, Prepared):
        return to_rows(plan.filter, filter), None, operands.filter_zero_point
    return filter if plan.filter.packing == "panels" else as_prepared(plan, operands)


def _plane_bytes(plan: ConvolutionPlan) -> int:
    """At most what one image's planes take, as the handler lays them out."""
    options, kernel = plan.options, plan.filter.kernel
    pixels = phases = 1
    for i, size in enumerate(plan.output_sizes):
        stride, dilation = options.strides[i], options.dilations[i]
        pixels *= size + (kernel[i] - 1) * dilation // stride
        phases *= len({tap * dilation % stride for tap in range(min(kernel[i], stride))})
    sub_image = pixels + options.padding[-1][0] + _MOST_SLACK
    return sub_image * phases * plan.filter.channels * plan.filter.group_count
