"""A self-attention on Hopper GPUs: kernels read heads where the product stores them."""

import jax.numpy as jnp
from jax import Array

from dmlax._core.prepared_weights import Prepared
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._fused.attention.cuda import lowering as attention
from dmlax._fused.attention.plan import Attention
from dmlax._fused.self_attention.plan import Layout, SelfAttention, SelfAttentionPlan
from dmlax._fused.softmax.cuda import lowering as softmax
from dmlax._operators.matmul.cuda import lowering as product

_MOST_BYTES = 2**31  # offsets in the product's output have 32 bits


def why_not(plan: SelfAttentionPlan, platform: str) -> str | None:
    """The sentence that says why the kernels do not take the plan, or None."""
    if why := product.why_not_fused(plan.product, platform):
        return why
    if plan.layout.columns % CHUNK:
        return f"the columns of a head are no multiple of {CHUNK}"
    if plan.product.output.size >= _MOST_BYTES:
        return f"the product's output has {_MOST_BYTES:,} bytes or more"
    return attention.why_not(plan.attention, platform)


def run(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs the kernels."""
    y = product.run_with_lookup(plan.product, operands.product, _entries(plan, operands))
    output = _attend_at_once(plan, operands.attention, y)
    if output is not None:
        return output
    q, k, v = (_head_rows(plan.layout, part) for part in range(3))
    of_scores, of_values = plan.attention.scores, plan.attention.values
    scores = product.run_of_heads(of_scores, operands.attention.scores, (q, k), y)
    values: Array | Prepared | None = product.pack_heads_by_kernel(
        of_values, operands.attention.values, v, y
    )
    if values is None:
        values = plan.layout.split(y)[2].astype(of_values.matrix.matrix.dtype)
    return attention.finish(plan.attention, operands.attention, scores, values)


def _head_rows(layout: Layout, part: int) -> HeadRows:
    """The rows of the queries, the keys or the values: part 0, 1 or 2."""
    width = 3 * layout.heads * layout.columns
    start = part * layout.heads * layout.columns
    if part == 0 and layout.row >= 0:
        start += layout.row * width
    return HeadRows(layout.heads, layout.rows * width, layout.columns, width, start)


def _attend_at_once(plan: SelfAttentionPlan, operands: Attention, y: Array) -> Array | None:
    """Runs the kernel that keeps scores in shared memory; None where it is not for these sizes."""
    from dmlax._fused.self_attention.cuda import kernel
    from dmlax._fused.softmax.cuda.kernel import Quotients

    layout, of_all = plan.layout, plan.attention
    groups = plan.product.output.shape[0] // layout.rows * layout.heads
    sizes = kernel.Sizes(groups, layout.heads, layout.rows, of_all.heads_last)
    if layout.row >= 0 or not kernel.is_faster(sizes, layout.columns):
        return None
    scores, of_scores = product.parameters_of(of_all.scores, operands.scores)
    values, of_values = product.parameters_of(of_all.values, operands.values)
    parameters = {f"scores_{name}": x for name, x in of_scores.items()}
    parameters |= {f"values_{name}": x for name, x in of_values.items()}
    if any(x.size > 1 for x in parameters.values()):
        return None
    rows = _head_rows(layout, 0), _head_rows(layout, 1), _head_rows(layout, 2)
    quotients = Quotients(*softmax.quotients_of(of_all.softmax))
    problem = kernel.Problem(sizes, rows, scores, values, quotients)
    terms = jnp.asarray(operands.softmax.terms)
    output = kernel.attend(problem, y, parameters, terms)
    return output.reshape(of_all.output.shape)


def _entries(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """The tables as uint8, in the order of unsigned bytes; keys are re-based to int8."""
    entries = [jnp.asarray(table).astype(jnp.uint8) for table in operands.tables]
    if operands.tables[1].dtype == jnp.uint8:
        entries[1] = entries[1] ^ 128
    if plan.product.output.dtype == jnp.int8:
        entries = [jnp.roll(table, 128) for table in entries]
    return jnp.stack(entries)
