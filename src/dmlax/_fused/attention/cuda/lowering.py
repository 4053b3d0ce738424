"""An attention on Hopper GPUs: kernels that store rows of whole chunks.

Three calls would cut the rows between them to their elements.
"""

from jax import Array

from dmlax._core.prepared_weights import Prepared
from dmlax._fused.attention.plan import Attention, AttentionPlan
from dmlax._fused.softmax.cuda import lowering as softmax
from dmlax._operators.matmul.cuda import lowering as product


def why_not(plan: AttentionPlan, platform: str) -> str | None:
    """The sentence that says why the kernels do not take the plan, or None."""
    products = plan.scores, plan.values
    for of_product in products:
        if why := product.why_not(of_product, platform):
            return why
    if plan.output.size == 0 or plan.scores.output.size == 0:
        return "it is empty"
    if not all(map(product.requantizes, products)):
        return "a product is requantized apart"
    return softmax.why_not(plan.softmax, platform)


def run(plan: AttentionPlan, operands: Attention) -> Array:
    """Runs the kernels on rows of whole chunks."""
    scores = product.run_with_whole_rows(plan.scores, operands.scores)
    return finish(plan, operands, scores, product.pack_by_kernel(plan.values, operands.values))


def finish(
    plan: AttentionPlan, operands: Attention, scores: Array, values: Array | Prepared
) -> Array:
    """Runs the kernels after the first product, on its whole rows and on values, packed or not."""
    weights = softmax.run(plan.softmax, operands.softmax._replace(input=scores))
    multiply = product.run_with_heads_last if plan.heads_last else product.run
    return multiply(plan.values, operands.values._replace(a=weights, b=values))
