"""Converts tensors of bytes to the operands of a concatenation."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._concatenation.plan import ConcatenationPlan, Tensors
from dmlax._core.arguments import aval_of


def plan(tensors: Sequence[Array | np.ndarray], axis: int) -> tuple[ConcatenationPlan, Tensors]:
    """Plans a call, and returns its operands."""
    of_call = ConcatenationPlan(tuple(map(aval_of, tensors)), axis % tensors[0].ndim)
    return of_call, tuple(map(jnp.asarray, tensors))
