"""An attention of one tensor with itself in two calls, and lookups of the parts between them."""

import numpy as np
from jax import Array

from dmlax._attention.call import ATTENTION
from dmlax._byte_lookup.api import LOOKUP
from dmlax._matmul.api import QUANTIZED
from dmlax._self_attention.plan import SelfAttention, SelfAttentionPlan, with_parts


def run(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs the operators."""
    parts = plan.layout.split(QUANTIZED.call(plan.product, operands.product))
    mapped = [_look_up(part, table) for part, table in zip(parts, operands.tables, strict=True)]
    return ATTENTION.call(plan.attention, with_parts(operands, mapped))


def _look_up(x: Array, table: Array | np.ndarray) -> Array:
    """The entries for all bytes; `x` itself if the table is known to be the identity."""
    if isinstance(table, np.ndarray) and x.dtype == table.dtype:
        identity = np.sort(np.arange(256).astype(np.uint8).view(table.dtype))
        if np.array_equal(table, identity):
            return x
    return LOOKUP.call(*LOOKUP.plan(x, table))
