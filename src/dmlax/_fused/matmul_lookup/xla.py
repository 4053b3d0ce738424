"""A product and a lookup in two calls."""

from jax import Array

from dmlax._fused.matmul_lookup.plan import MatmulLookup, MatmulLookupPlan
from dmlax._operators.byte_lookup.api import LOOKUP
from dmlax._operators.byte_lookup.plan import Lookup
from dmlax._operators.matmul.api import QUANTIZED


def run(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Runs the two operators."""
    product = QUANTIZED.call(plan.product, operands.product)
    return LOOKUP.call(plan.lookup, Lookup(product, operands.table))
