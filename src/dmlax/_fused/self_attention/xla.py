"""An attention of one tensor with itself in two calls, and lookups of the parts between them."""

from jax import Array

from dmlax._fused.attention.call import ATTENTION
from dmlax._fused.self_attention.plan import SelfAttention, SelfAttentionPlan, with_parts
from dmlax._operators.byte_lookup.api import LOOKUP
from dmlax._operators.matmul.api import QUANTIZED


def run(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs the operators."""
    parts = plan.layout.split(QUANTIZED.call(plan.product, operands.product))
    calls = (LOOKUP.plan(*pair) for pair in zip(parts, operands.tables, strict=True))
    mapped = [LOOKUP.call(*call) for call in calls]
    return ATTENTION.call(plan.attention, with_parts(operands, mapped))
