"""A concatenation in plain XLA."""

import jax.numpy as jnp
from jax import Array

from dmlax._fused.concatenation.plan import ConcatenationPlan, Tensors


def run(plan: ConcatenationPlan, tensors: Tensors) -> Array:
    """Joins the tensors along the plan's axis."""
    return jnp.concatenate(tensors, axis=plan.axis)
