"""Convolution in C++ (`convolution.cc`): rows of the filter times packed panels of outputs."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core.arguments import is_static
from dmlax._core.prepared_weights import Prepared
from dmlax._cpu import library
from dmlax._cpu.layouts import Layout
from dmlax._operators.convolution.plan import ConvolutionPlan, Operands
from dmlax._operators.convolution.prepare import to_rows

_TARGET = "dmlax_convolution_v1"
_MOST_PLANES = 2**31  # bytes that one image's padded planes may take
_MOST_SLACK = 256  # bytes after every sub-image of an image
_MOST_SIZE = 2**31  # everything in `windows` is smaller


def run(plan: ConvolutionPlan, operands: Operands) -> Array:
    """One call; `vmap` puts its axes before those of every operand."""
    options = plan.options
    input, output = Layout(options.input_layout, 4), Layout(options.output_layout, 4)
    sizes = (plan.batch, plan.filter.outputs, *plan.output_sizes)
    struct = jax.ShapeDtypeStruct(output.shape(sizes), options.output_dtype)
    call = jax.ffi.ffi_call(_TARGET, struct, vmap_method="expand_dims")
    y: Array = call(
        input.to_kernel(operands.input),
        *_parameters(plan, operands),
        windows=np.asarray(_windows(plan), np.int64),
        groups=np.int64(plan.filter.group_count),
        panels=plan.filter.packing == "panels",
        input_last=input.channels_last,
        output_last=output.channels_last,
        filter_unsigned=plan.filter.filter.dtype == jnp.uint8,
        exact=options.arithmetic == "exact",
    )
    return output.from_kernel(y, sizes, options.output_layout)


def why_not(plan: ConvolutionPlan, platform: str) -> str | None:
    """Refuses sizes that the kernel cannot count, and too much scratch memory."""
    if why := library.why_not(platform):
        return why
    batch = [plan.input.shape[0]] if plan.input.is_static else []
    if not is_static(sizes := [*batch, *plan.input.shape[1:], *_windows(plan)]):
        return f"it needs static images, and InputTensor is {plan.input}"
    if max(sizes) >= _MOST_SIZE:
        return f"a size, stride, dilation or padding is {_MOST_SIZE:,} or more"
    if (planes := _plane_bytes(plan)) > _MOST_PLANES:
        return f"an image's padded planes take {planes:,} bytes of scratch, over {_MOST_PLANES:,}"
    return None


def _windows(plan: ConvolutionPlan) -> tuple[int, ...]:
    """Kernel, strides, dilations, start and end padding, of two axes."""
    options = plan.options
    start, end = zip(*options.padding, strict=True)
    rows = [plan.filter.kernel, options.strides, options.dilations, start, end]
    if len(plan.output_sizes) == 1:
        rows = [(one, *row) for one, row in zip((1, 1, 1, 0, 0), rows, strict=True)]
    return tuple(value for row in rows for value in row)


def _parameters(plan: ConvolutionPlan, operands: Operands) -> tuple[Array, ...]:
    """The prepared filter and every parameter, flat; absent ones are empty."""
    filter, options = operands.filter, plan.options
    if isinstance(filter, Prepared):
        packed, sums, filter_zero_point = filter
    else:  # the handler sums the rows
        packed, sums = to_rows(plan.filter, filter), None
        filter_zero_point = operands.filter_zero_point
    values: list[tuple[Array | None, DTypeLike]] = [
        (sums, jnp.int32),
        (filter_zero_point, plan.filter.filter.dtype),
        (operands.input_zero_point, plan.input.dtype),
        (operands.bias, jnp.int32),
        (operands.input_scale, jnp.float32),
        (operands.filter_scale, jnp.float32),
        (operands.output_scale, jnp.float32),
        (operands.output_zero_point, options.output_dtype if plan.quantized else jnp.uint8),
    ]
    flat = (jnp.zeros(0, dtype) if x is None else x.reshape(-1) for x, dtype in values)
    return packed, *flat


def _plane_bytes(plan: ConvolutionPlan) -> int:
    """An upper bound of the bytes of one image's planes, as the handler lays them out."""
    options, kernel = plan.options, plan.filter.kernel
    pixels = phases = 1
    for i, size in enumerate(plan.output_sizes):
        stride, dilation = options.strides[i], options.dilations[i]
        pixels *= size + (kernel[i] - 1) * dilation // stride
        phases *= len({tap * dilation % stride for tap in range(min(kernel[i], stride))})
    sub_image = pixels + options.padding[-1][0] + _MOST_SLACK
    return sub_image * phases * plan.filter.channels * plan.filter.group_count
