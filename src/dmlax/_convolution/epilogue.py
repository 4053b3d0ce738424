"""The epilogue of a convolution: the requantization, where the output is quantized."""

from collections.abc import Callable

import jax
from jax import Array

from dmlax._convolution.plan import ConvolutionPlan, Operands
from dmlax._convolution.prepare import as_parameter
from dmlax._core import requantize


def epilogue(
    plan: ConvolutionPlan, operands: Operands, channel: tuple[int, ...]
) -> Callable[[Array], Array]:
    """Returns accumulator -> output; `channel` reshapes (K,) to broadcast along the channels."""
    if not plan.quantized:
        return lambda accumulator: accumulator
    zero_point = operands.output_zero_point
    return requantize.requantizer(
        operands.input_scale.reshape(()),
        as_channel(operands.filter_scale, channel),
        operands.output_scale.reshape(()),
        None if zero_point is None else zero_point.reshape(()),
        plan.options.output_dtype,
        plan.options.arithmetic,
        threshold=jax.tree.map(lambda x: as_channel(x, channel), operands.threshold),
    )


def as_channel(parameter: Array, channel: tuple[int, ...]) -> Array:
    """Reshapes one value to (), one per channel to broadcast along the channels."""
    parameter = as_parameter(parameter)
    return parameter.reshape(channel) if parameter.ndim else parameter
