"""The definition of the element-wise operators: every parameter as large as the input."""

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._operators.quantize.plan import Elementwise, ElementwisePlan


def run(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """Quantizes or dequantizes."""
    whole: Elementwise = jax.tree.map(
        lambda x: jnp.broadcast_to(x, plan.input.shape), plan.spread_all(operands)
    )
    return (quantize if plan.quantizes else dequantize)(plan, whole)


def quantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """clamp(round(input / scale) + zero_point), element by element."""
    x, scale, zero_point = operands
    return requantize.quantize(x, scale, zero_point, plan.output.dtype, plan.arithmetic)


def dequantize(plan: ElementwisePlan, operands: Elementwise) -> Array:
    """(input - zero_point) * scale, element by element."""
    return requantize.dequantize(*operands)
