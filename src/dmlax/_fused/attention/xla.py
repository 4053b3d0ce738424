"""An attention in three calls."""

import jax.numpy as jnp
from jax import Array

from dmlax._fused.attention.plan import Attention, AttentionPlan
from dmlax._fused.softmax.call import SOFTMAX
from dmlax._operators.matmul.api import QUANTIZED


def run(plan: AttentionPlan, operands: Attention) -> Array:
    """Runs the three operators."""
    scores = QUANTIZED.call(plan.scores, operands.scores)
    weights = SOFTMAX.call(plan.softmax, operands.softmax._replace(input=scores))
    output = QUANTIZED.call(plan.values, operands.values._replace(a=weights))
    return jnp.swapaxes(output, -2, -3) if plan.heads_last else output
