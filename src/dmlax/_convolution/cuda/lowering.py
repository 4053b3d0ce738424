"""Convolution on Hopper GPUs: gathered windows times the filter, requantized in registers.

The kernels are in `kernel` and `depthwise`, which are imported only where they are lowered.
"""

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.cuda.space_to_depth import ChannelTransform
from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import as_prepared, pad_channels
from dmlax._core.arguments import aval_of
from dmlax._core.byte_packing import pad_end
from dmlax._cuda import capability
from dmlax._cuda.sum_types import Addend, SumTypes

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
    return _run(name, Call(plan), Operands(operands))


def fuses_sum(plan: ConvolutionPlan) -> bool:
    """True if the kernel adds an addend to its results."""
    return not ConvProblem.of(plan).depthwise


def run_with_sum(
    plan: ConvolutionPlan, sum: SumTypes, operands: Convolution, addend: Addend
) -> Array:
    """Runs a kernel that adds an addend to its result."""
    return _run("quantized_linear_convolution_add", Call(plan, sum), Operands(operands, addend))


class Call(NamedTuple):
    """A convolution, and its sum with an addend if there is one."""

    plan: ConvolutionPlan
    sum: SumTypes | None = None

    @property
    def output_dtype(self) -> np.dtype:
        """The dtype of the result, or of the sum."""
        return self.plan.output.dtype if self.sum is None else self.sum.sum


class Operands(NamedTuple):
    """The operands of a call."""

    convolution: Convolution
    addend: Addend | None = None


def _run(name: str, call: Call, operands: Operands) -> Array:
    plan, given = call.plan, operands.convolution._replace(threshold=None)
    input = capability.refuse_elsewhere(name, given.input, functools.partial(why_not, plan))
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, call.output_dtype)
    operands = operands._replace(convolution=given._replace(input=input))
    output: Array = _with_batching(call)(operands)
    return output


def _with_batching(call: Call) -> Any:
    """The convolution with a batching rule: one kernel if only the images are mapped, else a loop.

    The images are the input and the addend.
    """
    convolve, plan = functools.partial(_convolve, call), call.plan
    function = jax.custom_batching.custom_vmap(convolve)

    @function.def_vmap
    def batched(size: int, arguments: Any, operands: Operands) -> tuple[Array, bool]:
        (mapped,) = arguments
        if size == 0:
            return jnp.zeros((0, *plan.output.shape), call.output_dtype), True
        axes = jax.tree.map(lambda each: 0 if each else None, mapped)
        one_by_one = jax.vmap(jax.custom_batching.sequential_vmap(convolve), (axes,))
        if not _maps_images_alone(mapped):
            return one_by_one(operands), True
        images = operands.convolution.input, operands.addend and operands.addend.addend
        layouts = plan.options.input_layout, plan.options.output_layout
        x, addend = (
            None if x is None else _merge_first_axis(x, layout[0])
            for x, layout in zip(images, layouts, strict=True)
        )
        larger = replace(plan, operands=plan.operands._replace(input=aval_of(x)))
        if why_not(larger, "cuda"):
            return one_by_one(operands), True
        given = Operands(
            operands.convolution._replace(input=x),
            operands.addend and operands.addend._replace(addend=addend),
        )
        y = _with_batching(call._replace(plan=larger))(given)
        return _split_axis(y, plan.options.output_layout[0], size), True

    return function


def _maps_images_alone(mapped: Operands) -> bool:
    """True if the input and the addend are mapped, and nothing else is."""
    others: Any = mapped.convolution._replace(input=False)
    images = [mapped.convolution.input]
    if mapped.addend is not None:
        others = others, mapped.addend._replace(addend=False)
        images.append(mapped.addend.addend)
    return all(images) and not any(jax.tree.leaves(others))


def _merge_first_axis(x: Array, axis: int) -> Array:
    """Merges the first axis into another, counted without it."""
    x = jnp.moveaxis(x, 0, axis)
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _split_axis(x: Array, axis: int, size: int) -> Array:
    """The inverse of `_merge_first_axis`, for a first axis of a size."""
    return jnp.moveaxis(x.reshape(*x.shape[:axis], size, -1, *x.shape[axis + 1 :]), axis, 0)


def _convolve(call: Call, operands: Operands) -> Array:
    """Runs a kernel channels last, and transposes the output as the plan lays it out."""
    plan, (given, addend) = call.plan, operands
    problem = ConvProblem.of(plan, call.sum)
    batch, channels, *spatial = plan.options.input_layout
    given = given._replace(input=jnp.transpose(given.input, (batch, *spatial, channels)))
    if addend is not None:
        batch, channels, *spatial = plan.options.output_layout
        x = jnp.transpose(addend.addend, (batch, *spatial, channels))
        addend = addend._replace(addend=x.reshape(-1, plan.filter.outputs))
    if problem.depthwise:
        output = _convolve_depthwise(problem, given)
    else:
        output = _convolve_dense(problem, given, addend)
    output = output.reshape(plan.batch, *plan.output_sizes, plan.filter.outputs)
    last = output.ndim - 1
    order = inverse(plan.options.output_layout)
    return jnp.transpose(output, [{0: 0, 1: last}.get(axis, axis - 1) for axis in order])


def _convolve_dense(source: ConvProblem, operands: Convolution, addend: Addend | None) -> Array:
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
    if addend is not None:
        missing = problem.groups * problem.stored_channels - plan.filter.outputs
        addend = addend._replace(addend=pad_end(addend.addend, missing))
    multiprocessors = capability.multiprocessors()
    output = kernel.convolve(problem, multiprocessors, given, filter.sums, addend)
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
