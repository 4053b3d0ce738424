"""Convolution on Hopper GPUs: gathered windows times the filter, requantized where they are summed.

The kernels are in `mosaic_gpu_kernel` and `mosaic_gpu_depthwise`, imported only where they are
lowered.
"""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._convolution.mosaic_gpu_problem import Problem
from dmlax._convolution.mosaic_gpu_widen import Widening
from dmlax._convolution.plan import Convolution, ConvolutionPlan, inverse
from dmlax._convolution.prepare import as_prepared
from dmlax._convolution.words import fill_channels, pad_end
from dmlax._core import mosaic_gpu
from dmlax._core.arguments import aval_of

_MOST = 2**31  # of cells, and of bytes of one padded image and of the filter
_MOST_SIZES = 32  # of a kernel, added up: a cell has a bit for each row and column of taps
_MOST_DEPTHWISE_TAPS = 64  # each is written out


def why_not(plan: ConvolutionPlan, platform: str) -> str | None:
    """None, or the sentence that says why it cannot run."""
    if why := mosaic_gpu.why_not(platform):
        return why
    if plan.input.size == 0 and plan.output.size > 0:
        return "its input is empty, and its output is not"
    problem = Widening.of(Problem.of(plan)).problem
    if max(problem.cells, problem.padded_image_bytes, problem.filter_bytes) >= _MOST:
        return (
            f"its output has {_MOST:,} cells or more, or a padded image or the filter as many bytes"
        )
    if problem.depthwise:
        many = problem.taps > _MOST_DEPTHWISE_TAPS
        return f"its depthwise kernel has more than {_MOST_DEPTHWISE_TAPS} taps" if many else None
    if problem.padded and sum(problem.kernel) > _MOST_SIZES:
        return f"its input is padded, and its kernel's sizes add up to more than {_MOST_SIZES}"
    return None


def run(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Runs a kernel; where there is nothing to write, nothing is launched."""
    refused = functools.partial(why_not, plan)
    name = "quantized_linear_convolution" if plan.quantized else "convolution_integer"
    input = mosaic_gpu.refuse_elsewhere(name, operands.input, refused)
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, plan.output.dtype)
    output: Array = _with_batches(plan)(operands._replace(input=input))
    return output


def _with_batches(plan: ConvolutionPlan) -> Any:
    """The convolution, mapped by one kernel where only the input is, else by one after another."""
    convolve = functools.partial(_convolve, plan)
    call = jax.custom_batching.custom_vmap(convolve)

    @call.def_vmap
    def folded(size: int, arguments: Any, operands: Convolution) -> tuple[Array, bool]:
        (mapped,) = arguments
        if size == 0:
            return jnp.zeros((0, *plan.output.shape), plan.output.dtype), True
        axes = jax.tree.map(lambda each: 0 if each else None, mapped)
        one_by_one = jax.vmap(jax.custom_batching.sequential_vmap(convolve), (axes,))
        if any(jax.tree.leaves(mapped._replace(input=False))) or not mapped.input:
            return one_by_one(operands), True
        x = _merged(operands.input, plan.options.input_layout[0])
        larger = replace(plan, operands=plan.operands._replace(input=aval_of(x)))
        if why_not(larger, "cuda"):
            return one_by_one(operands), True
        y = _with_batches(larger)(operands._replace(input=x))
        return _split(y, plan.options.output_layout[0], size), True

    return call


def _merged(x: Array, axis: int) -> Array:
    """The first axis, and one of those after it, as that one."""
    x = jnp.moveaxis(x, 0, axis)
    return x.reshape(*x.shape[:axis], -1, *x.shape[axis + 2 :])


def _split(x: Array, axis: int, size: int) -> Array:
    """The inverse of `_merged`."""
    return jnp.moveaxis(x.reshape(*x.shape[:axis], size, -1, *x.shape[axis + 1 :]), axis, 0)


def _convolve(plan: ConvolutionPlan, operands: Convolution) -> Array:
    """Channels last, through a kernel, and as the plan lays the output out."""
    problem = Problem.of(plan)
    batch, channels, *spatial = plan.options.input_layout
    x = jnp.transpose(operands.input, (batch, *spatial, channels))
    kernel = _by_channels if problem.depthwise else _by_products
    output = kernel(problem, operands._replace(input=x))
    output = output.reshape(plan.batch, *plan.output_sizes, plan.filter.outputs)
    last = output.ndim - 1
    order = inverse(plan.options.output_layout)
    return jnp.transpose(output, [{0: 0, 1: last}.get(axis, axis - 1) for axis in order])


def _by_products(narrow: Problem, operands: Convolution) -> Array:
    """(cells, K), of whole words of channels, few of them made more."""
    from dmlax._convolution import mosaic_gpu_kernel as kernel

    plan, widening = narrow.plan, Widening.of(narrow)
    problem = widening.problem
    x, filter = fill_channels(plan, operands, operands.input, as_prepared(plan, operands))
    x, filter = widening.input(x, operands.input_zero_point), widening.filter(filter)
    given = operands._replace(
        input=x,
        filter=pad_end(filter.packed, problem.depth - filter.packed.shape[1]),
        filter_zero_point=filter.zero_point,
    )
    processors = mosaic_gpu.processors()
    tile = kernel.tile_of(problem, processors)
    output = kernel.convolve(problem, tile, processors, given, filter.sums)
    return output[:, : plan.filter.outputs]


def _by_channels(problem: Problem, operands: Convolution) -> Array:
    """(cells, K). A channel with several filters is repeated; channels fill whole words."""
    from dmlax._convolution import mosaic_gpu_depthwise as kernel

    x, outputs = operands.input, problem.plan.filter.outputs
    x = jnp.repeat(x, problem.outputs, -1) if problem.outputs > 1 else x
    filter, missing = as_prepared(problem.plan, operands), problem.pixel - outputs
    given = operands._replace(
        input=pad_end(x, missing),
        filter=pad_end(filter.packed, missing, axis=0),
        filter_zero_point=filter.zero_point,
    )
    split = kernel.split_of(problem)
    output = kernel.convolve(problem, split, mosaic_gpu.processors(), given, filter.sums)
    return output[:, :outputs]
