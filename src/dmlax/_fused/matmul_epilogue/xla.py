"""A product and its epilogue in two calls."""

from jax import Array

from dmlax._fused.matmul_epilogue.plan import (
    MatmulAdd,
    MatmulAddPlan,
    MatmulLookup,
    MatmulLookupPlan,
)
from dmlax._operators.add_multiply.api import ADD
from dmlax._operators.byte_lookup.api import LOOKUP
from dmlax._operators.byte_lookup.plan import Lookup
from dmlax._operators.matmul.api import QUANTIZED


def add(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Runs the product and the sum."""
    product = QUANTIZED.call(plan.product, operands.product).reshape(plan.output.shape)
    return ADD.call(plan.sum, operands.sum._replace(**{plan.product_term: product}))


def look_up(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Runs the product and the lookup."""
    product = QUANTIZED.call(plan.product, operands.product)
    return LOOKUP.call(plan.lookup, Lookup(product, operands.table))
