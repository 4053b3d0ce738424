"""A product and a sum in two calls."""

from jax import Array

from dmlax._add_multiply.api import ADD
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul_add.plan import MatmulAdd, MatmulAddPlan


def run(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Runs the two operators."""
    product = QUANTIZED.call(plan.product, operands.product).reshape(plan.output.shape)
    return ADD.call(plan.sum, operands.sum._replace(**{plan.product_term: product}))
