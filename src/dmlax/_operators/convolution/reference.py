"""The definition of the convolutions, in a dozen lines of plain JAX."""

import jax.numpy as jnp
from jax import Array, lax

from dmlax._operators.convolution.epilogue import as_channel, epilogue
from dmlax._operators.convolution.plan import ConvolutionPlan, Operands, inverse
from dmlax._operators.convolution.prepare import as_int32, real_values


def run(plan: ConvolutionPlan, operands: Operands) -> Array:
    """`lax.conv_general_dilated` on int32 less the zero points, then bias and requantization."""
    options = plan.options
    x = operands.input.astype(jnp.int32) - as_int32(operands.input_zero_point)
    accumulator = lax.conv_general_dilated(
        jnp.transpose(x, options.input_layout),
        real_values(plan, operands),
        options.strides,
        options.padding,
        rhs_dilation=options.dilations,
        feature_group_count=plan.filter.group_count,
        preferred_element_type=jnp.int32,
    )
    channel = (1, -1, *(1,) * len(plan.output_sizes))
    accumulator += as_channel(as_int32(operands.bias), channel)
    output = epilogue(plan, operands, channel)(accumulator)
    return jnp.transpose(output, inverse(options.output_layout))


def why_not(plan: ConvolutionPlan, platform: str) -> str | None:
    """The reason not to run on CUDA: XLA does not compile it there."""
    if platform == "cuda":
        return "XLA for CUDA compiles no int32 convolution"
    return None
