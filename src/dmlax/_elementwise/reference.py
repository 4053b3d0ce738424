"""The definition of the element-wise operators: every parameter as large as the input."""

import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._elementwise.plan import Elementwise, ElementwisePlan


def quantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """clamp(round(input / scale) + zero_point), element by element."""
    x, scale, zero_point = _broadcast(plan, operands)
    return requantize.quantize(x, scale, zero_point, plan.output.dtype, plan.arithmetic)


def dequantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """(input - zero_point) * scale, element by element."""
    return requantize.dequantize(*_broadcast(plan, operands))


def _broadcast(plan: ElementwisePlan, operands: Elementwise) -> Elementwise:
    shape = plan.input.shape
    scale = jnp.broadcast_to(plan.spread(operands.scale), shape)
    if operands.zero_point is None:
        return Elementwise(operands.input, scale, None)
    zero_point = jnp.broadcast_to(plan.spread(operands.zero_point), shape)
    return Elementwise(operands.input, scale, zero_point)
