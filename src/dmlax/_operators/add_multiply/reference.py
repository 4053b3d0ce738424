"""The definition of the operators on two tensors, both as large as the output."""

import jax.numpy as jnp
from jax import Array

from dmlax._operators.add_multiply import arithmetic
from dmlax._operators.add_multiply.plan import BinaryPlan, Operands


def run(plan: BinaryPlan, operands: Operands) -> Array:
    """Applies the formula element by element."""
    a, b = (jnp.broadcast_to(x, plan.output.shape) for x in operands[:2])
    return arithmetic.of_elements(plan)(a, b, operands.parameters)
