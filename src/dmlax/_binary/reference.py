"""The definition of the operators on two tensors, both as large as the output."""

import jax.numpy as jnp
from jax import Array

from dmlax._binary import arithmetic
from dmlax._binary.plan import Binary, BinaryPlan


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point), element by element."""
    return arithmetic.add(plan, _broadcast(plan, operands))


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round(a * b / output_scale) + output_zero_point), element by element."""
    return arithmetic.multiply(plan, _broadcast(plan, operands))


def _broadcast(plan: BinaryPlan, operands: Binary) -> Binary:
    a, b = (jnp.broadcast_to(x, plan.output.shape) for x in (operands.a, operands.b))
    return Binary(a, b, *(None if x is None else x.reshape(()) for x in operands[2:]))
