"""Convolution on Hopper GPUs: gathered windows times the filter, requantized in registers.

The kernels are in `kernel` and `depthwise`, which are imported only where they are lowered.
"""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.cuda.space_to_depth import ChannelTransform
from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import as_prepared, pad_channels
from dmlax._core.arguments import aval_of
from dmlax._core.byte_packing import pad_end
from dmlax._cuda import capability

_SIZE_LIMIT = 2**31  # of output pixels, and of bytes of one padded image and of the filter
_KERNEL_SIZES_LIMIT = 32  # their sum: a pixel has a bit for each row and column of taps
_DEPTHWISE_TAPS_LIMIT = 64  # each tap is unrolled


def why_not(plan: ConvolutionPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if plan.input.size == 0 and plan.output.size > 0:
        return "its input is empty, and its output is not"
    problem = ChannelTransform.of(ConvProblem.of(plan)).target
    sizes = problem.output_pixels, problem.padded_image_bytes, problem.filter_bytes
    if max(sizes) >= _SIZE_LIMIT:
        return (
            f"its output has {_SIZE_LIMIT:,} pixels or more, "
            "or a padded image or the filter as many bytes"
        )
    if problem.depthwise:
        if problem.taps > _DEPTHWISE_TAPS_LIMIT:
            return f"its depthwise kernel has more than {_DEPTHWISE_TAPS_LIMIT} taps"
    elif problem.padded and sum(problem.kernel) > _KERNEL_SIZES_LIMIT:
        return (
            f"its input is padded, and its kernel's sizes add up to more than {_KERNEL_SIZES_LIMIT}"
        )
    return None


def run(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Runs a kernel; launches none for an empty output."""
    name = "quantized_linear_convolution" if plan.quantized else "convolution_integer"
    input = capability.refuse_elsewhere(name, operands.input, functools.partial(why_not, plan))
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, plan.output.dtype)
    output: Array = _with_batching(plan)(operands._replace(input=input))
    return output


def _with_batching(plan: ConvolutionPlan) -> Any:
    """The convolution with a batching rule: one kernel if only the input is mapped, else a loop."""
    convolve = functools.partial(_convolve, plan)
    call = jax.custom_batching.custom_vmap(convolve)

    @call.def_vmap
    def batched(size: int, arguments: Any, operands: Convolution) -> tuple[Array, bool]:
        (mapped,) = arguments
        if size == 0:
            return jnp.zeros((0, *plan.output.shape), plan.output.dtype), True
        axes = jax.tree.map(lambda each: 0 if each else None, mapped)
        one_by_one = jax.vmap(jax.custom_batching.sequential_vmap(convolve), (axes,))
        if any(jax.tree.leaves(mapped._replace(input=False))) or not mapped.input:
            return one_by_one(operands), True
        x = _merge_first_axis(operands.input, plan.options.input_layout[0])
        larger = replace(plan, operands=plan.operands._replace(input=aval_of(x)))
        if why_not(larger, "cuda"):
            return one_by_one(operands), True
        y = _with_batching(larger)(operands._replace(input=x))
        return _split_axis(y, plan.options.output_layout[0], size), True

    return call


def _merge_first_axis(x: Array, axis: int) -> Array:
    """Merges the first axis into another, counted without it."""
    x = jnp.moveaxis(x, 0, axis)
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _split_axis(x: Array, axis: int, size: int) -> Array:
    """The inverse of `_merge_first_axis`, for a first axis of a size."""
    return jnp.moveaxis(x.reshape(*x.shape[:axis], size, -1, *x.shape[axis + 1 :]), axis, 0)


def _convolve(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Runs a kernel channels last, and transposes the output as the plan lays it out."""
    problem = ConvProblem.of(plan)
    batch, channels, *spatial = plan.options.input_layout
    x = jnp.transpose(operands.input, (batch, *spatial, channels))
    convolve = _convolve_depthwise if problem.depthwise else _convolve_dense
    output = convolve(problem, operands._replace(input=x))
    output = output.reshape(plan.batch, *plan.output_sizes, plan.filter.outputs)
    last = output.ndim - 1
    order = inverse(plan.options.output_layout)
    return jnp.transpose(output, [{0: 0, 1: last}.get(axis, axis - 1) for axis in order])


def _convolve_dense(source: ConvProblem, operands: Convolution) -> Array:
    """(output pixels, K), by the matrix product of windows and the filter."""
    from dmlax._convolution.cuda import kernel

    plan, transform = source.plan, ChannelTransform.of(source)
    problem = transform.target
    x, filter = pad_channels(plan, operands, operands.input, as_prepared(plan, operands))
    x = transform.transform_input(x, operands.input_zero_point)
    filter = transform.transform_filter(filter)
    given = operands._replace(
        input=x,
        filter=pad_end(filter.packed, problem.depth - filter.packed.shape[1]),
        filter_zero_point=filter.zero_point,
    )
    output = kernel.convolve(problem, capability.multiprocessors(), given, filter.sums)
    return output[:, : plan.filter.outputs]


def _convolve_depthwise(problem: ConvProblem, operands: Convolution) -> Array:
    """(output pixels, K). A channel with several filters is repeated, so that each has its own."""
    from dmlax._convolution.cuda import depthwise

    x, repeats, outputs = operands.input, problem.output_channels, problem.plan.filter.outputs
    x = jnp.repeat(x, repeats, -1) if repeats > 1 else x
    filter, missing = as_prepared(problem.plan, operands), problem.pixel_bytes - outputs
    given = operands._replace(
        input=pad_end(x, missing),
        filter=pad_end(filter.packed, missing, axis=0),
        filter_zero_point=filter.zero_point,
    )
    output = depthwise.convolve(problem, capability.multiprocessors(), given, filter.sums)
    return output[:, :outputs]
