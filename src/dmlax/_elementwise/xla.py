"""The element-wise operators in plain XLA, parameters as small as they came."""

import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._elementwise.plan import Elementwise, ElementwisePlan


def quantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """clamp(round(input / scale) + zero_point), broadcasting."""
    zero_point = None if operands.zero_point is None else plan.spread(operands.zero_point)
    scale = plan.spread(operands.scale)
    return requantize.quantize(
        operands.input, scale, zero_point, plan.output.dtype, plan.arithmetic
    )


def dequantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """(input - zero_point) * scale, broadcasting."""
    zero_point = None if operands.zero_point is None else plan.spread(operands.zero_point)
    return requantize.dequantize(operands.input, plan.spread(operands.scale), zero_point)


def dequantize_tangent(
    plan: ElementwisePlan, operands: Elementwise, tangents: Elementwise
) -> Array:
    """Linear in the scale; the rest is integers.

    In float32, so that the derivative of one scale, which sums over many elements, is not a sum
    in float16.
    """
    steps = dequantize(plan, operands._replace(scale=jnp.ones((), jnp.float32)))
    tangent = steps * plan.spread(tangents.scale).astype(jnp.float32)
    return tangent.astype(plan.output.dtype)
