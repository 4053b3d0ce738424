"""The epilogue of a convolution: the requantization, where the output is quantized."""

from collections.abc import Callable

import jax
from jax import Array

from dmlax._core import requantize
from dmlax._operators.convolution.plan import ConvolutionPlan, Operands
from dmlax._operators.convolution.prepare import as_int32, as_parameter


def epilogue(
    plan: ConvolutionPlan, operands: Operands, channel: tuple[int, ...]
) -> Callable[[Array], Array]:
    """Returns accumulator -> output; `channel` reshapes (K,) to broadcast along the channels."""
    if not plan.quantized:
        return lambda accumulator: accumulator
    scales = operands.input_scale, operands.filter_scale, operands.output_scale
    parameters = *scales, operands.output_zero_point, operands.threshold
    x, w, y, zero, threshold = jax.tree.map(lambda x: as_channel(x, channel), parameters)
    options = plan.options
    return requantize.requantizer(
        *(x, w, y, zero, options.output_dtype, options.arithmetic),
        threshold=threshold,
        requantization=options.requantization,
    )


def finish(plan: ConvolutionPlan, operands: Operands, sums: Array) -> Array:
    """The bias and the requantization of sums, in the output's layout."""
    channel = [1] * sums.ndim
    channel[plan.options.output_layout[1]] = -1
    sums = sums + as_channel(as_int32(operands.bias), tuple(channel))
    return epilogue(plan, operands, tuple(channel))(sums)


def as_channel(parameter: Array, channel: tuple[int, ...]) -> Array:
    """Reshapes one value to (), one per channel to broadcast along the channels."""
    parameter = as_parameter(parameter)
    return parameter.reshape(channel) if parameter.ndim else parameter
