"""An attention of one tensor with itself in two calls, and lookups of the parts between them."""

from jax import Array

from dmlax._attention.call import ATTENTION
from dmlax._byte_lookup.api import LOOKUP
from dmlax._matmul.api import QUANTIZED
from dmlax._self_attention.plan import SelfAttention, SelfAttentionPlan, with_parts


def run(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs the operators."""
    parts = plan.layout.split(QUANTIZED.call(plan.product, operands.product))
    calls = (LOOKUP.plan(*pair) for pair in zip(parts, operands.tables, strict=True))
    mapped = [LOOKUP.call(*call) for call in calls]
    return ATTENTION.call(plan.attention, with_parts(operands, mapped))
