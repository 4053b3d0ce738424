"""The element-wise operators in plain XLA, parameters as small as they came."""

import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._operators.quantize.plan import Elementwise, ElementwisePlan


def run(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """clamp(round(input / scale) + zero_point), or (input - zero_point) * scale."""
    spread = plan.spread_all(operands)
    if plan.quantizes:
        return requantize.quantize(*spread, plan.output.dtype, plan.arithmetic)
    return requantize.dequantize(*spread)


def dequantize_tangent(
    plan: ElementwisePlan, operands: Elementwise, tangents: Elementwise
) -> Array:
    """Linear in the scale; the rest is integers.

    In float32, so that the derivative of one scale, which sums over many elements, is not a sum
    in float16.
    """
    steps = requantize.dequantize(
        *plan.spread_all(operands._replace(scale=jnp.ones((), jnp.float32)))
    )
    tangent = steps * plan.spread(tangents.scale).astype(jnp.float32)
    return tangent.astype(plan.output.dtype)
