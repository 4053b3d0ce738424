"""Convolution on Hopper GPUs: gathered windows times the filter, requantized in registers.

The kernels are in `kernel` and `depthwise`, which are imported only where they are lowered.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import aval_of
from dmlax._core.byte_packing import pad_end
from dmlax._core.layouts import from_order, to_order
from dmlax._cuda import capability
from dmlax._cuda.batching import call_merged
from dmlax._cuda.product_types import Addend, SumTypes
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.cuda.space_to_depth import ChannelTransform
from dmlax._operators.convolution.plan import ConvolutionPlan, Operands
from dmlax._operators.convolution.prepare import as_prepared, pad_channels

_SIZE_LIMIT = 2**31  # limits output pixels, and the bytes of a padded image and of the filter
_KERNEL_SIZES_LIMIT = 32  # their sum: a pixel has a bit for every row and column of taps
_DEPTHWISE_TAPS_LIMIT = 64  # taps are unrolled


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


def run(plan: ConvolutionPlan, operands: Operands) -> Array:
    """Runs a kernel; launches none for an empty output."""
    name = "quantized_linear_convolution" if plan.quantized else "convolution_integer"
    return _run(name, Call(plan), CallOperands(operands))


def fuses_sum(plan: ConvolutionPlan) -> bool:
    """True if the kernel adds an addend to its results."""
    return not ConvProblem.of(plan).depthwise


def run_with_sum(plan: ConvolutionPlan, sum: SumTypes, operands: Operands, addend: Addend) -> Array:
    """Runs a kernel that adds an addend to its result."""
    return _run("quantized_linear_convolution_add", Call(plan, sum), CallOperands(operands, addend))


class Call(NamedTuple):
    """A convolution, and its sum with an addend if there is one."""

    plan: ConvolutionPlan
    sum: SumTypes | None = None

    @property
    def output_dtype(self) -> np.dtype:
        """The dtype of the result, or of the sum."""
        return self.plan.output.dtype if self.sum is None else self.sum.sum


class CallOperands(NamedTuple):
    """The operands of a call."""

    convolution: Operands
    addend: Addend | None = None


def _run(name: str, call: Call, operands: CallOperands) -> Array:
    plan, convolution = call.plan, operands.convolution._replace(threshold=None)
    input = capability.refuse_elsewhere(name, convolution.input, functools.partial(why_not, plan))
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, call.output_dtype)
    convolution = convolution._replace(input=input)
    return _convolve_merged(call, operands._replace(convolution=convolution))


def _convolve_merged(call: Call, operands: CallOperands) -> Array:
    """Convolves by one kernel if only images are mapped, else by a loop over kernels."""
    merge = functools.partial(_convolve_batch, call)
    return call_merged(functools.partial(_convolve, call), merge, operands)


def _convolve_batch(
    call: Call, size: int, mapped: Sequence[CallOperands], operands: tuple[CallOperands, ...]
) -> Array | None:
    """Convolves mapped images as one batch; None where anything else is mapped, or they are many.

    The images are the input and the addend.
    """
    if not _maps_images_alone(*mapped):
        return None
    plan, ((convolution, addend),) = call.plan, operands
    input_batch, output_batch = plan.options.input_layout[0], plan.options.output_layout[0]
    x = _merge_first_axis(convolution.input, input_batch)
    if addend is not None:
        addend = addend._replace(addend=_merge_first_axis(addend.addend, output_batch))
    larger = replace(plan, operands=plan.operands._replace(input=aval_of(x)))
    if why_not(larger, "cuda"):
        return None
    merged = CallOperands(convolution._replace(input=x), addend)
    return _split_axis(_convolve_merged(call._replace(plan=larger), merged), output_batch, size)


def _maps_images_alone(mapped: CallOperands) -> bool:
    """True if the input and the addend are mapped, and nothing else is."""
    convolution, addend = mapped
    images = convolution.input and (addend is None or addend.addend)
    parameters = convolution._replace(input=False), addend and addend._replace(addend=False)
    return images and not any(jax.tree.leaves(parameters))


def _merge_first_axis(x: Array, axis: int) -> Array:
    """Merges the first axis into another, counted without it."""
    x = jnp.moveaxis(x, 0, axis)
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _split_axis(x: Array, axis: int, size: int) -> Array:
    """The inverse of `_merge_first_axis`, for a first axis of a size."""
    return jnp.moveaxis(x.reshape(*x.shape[:axis], size, -1, *x.shape[axis + 1 :]), axis, 0)


def _convolve(call: Call, operands: CallOperands) -> Array:
    """Runs a kernel channels last, and transposes the output as the plan lays it out."""
    plan, (convolution, addend) = call.plan, operands
    problem = ConvProblem.of(plan, call.sum)
    input = to_order(convolution.input, plan.options.input_layout, last=True)
    convolution = convolution._replace(input=input)
    if addend is not None:
        x = to_order(addend.addend, plan.options.output_layout, last=True)
        addend = addend._replace(addend=x.reshape(-1, plan.filter.outputs))
    if problem.depthwise:
        output = _convolve_depthwise(problem, convolution)
    else:
        output = _convolve_dense(problem, convolution, addend)
    output = output.reshape(plan.batch, *plan.output_sizes, plan.filter.outputs)
    return from_order(output, plan.options.output_layout, last=True)


def _convolve_dense(source: ConvProblem, operands: Operands, addend: Addend | None) -> Array:
    """(output pixels, K), by the matrix product of windows and the filter."""
    from dmlax._operators.convolution.cuda import kernel

    plan, transform = source.plan, ChannelTransform.of(source)
    problem = transform.target
    x, filter = pad_channels(plan, operands, operands.input, as_prepared(plan, operands))
    x = transform.transform_input(x, operands.input_zero_point)
    filter = transform.transform_filter(filter)
    operands = operands._replace(
        input=x,
        filter=pad_end(filter.packed, problem.depth - filter.packed.shape[1]),
        filter_zero_point=filter.zero_point,
    )
    if addend is not None:
        missing = problem.groups * problem.stored_channels - plan.filter.outputs
        addend = addend._replace(addend=pad_end(addend.addend, missing))
    multiprocessors = capability.multiprocessors()
    output = kernel.convolve(problem, multiprocessors, operands, filter.sums, addend)
    return output[:, : plan.filter.outputs]


def _convolve_depthwise(problem: ConvProblem, operands: Operands) -> Array:
    """(output pixels, K). An input channel is repeated for every filter that reads it."""
    from dmlax._operators.convolution.cuda import depthwise

    x, repeats, outputs = operands.input, problem.output_channels, problem.plan.filter.outputs
    x = jnp.repeat(x, repeats, -1) if repeats > 1 else x
    filter, missing = as_prepared(problem.plan, operands), problem.pixel_bytes - outputs
    operands = operands._replace(
        input=pad_end(x, missing),
        filter=pad_end(filter.packed, missing, axis=0),
        filter_zero_point=filter.zero_point,
    )
    output = depthwise.convolve(problem, capability.multiprocessors(), operands, filter.sums)
    return output[:, :outputs]
