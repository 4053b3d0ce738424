"""A product and a sum in two calls."""

from jax import Array

from dmlax._fused.matmul_add.plan import MatmulAdd, MatmulAddPlan
from dmlax._operators.add_multiply.api import ADD
from dmlax._operators.matmul.api import QUANTIZED


def run(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Runs the two operators."""
    product = QUANTIZED.call(plan.product, operands.product).reshape(plan.output.shape)
    return ADD.call(plan.sum, operands.sum._replace(**{plan.product_term: product}))
