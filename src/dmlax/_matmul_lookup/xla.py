"""A product and a lookup in two calls."""

from jax import Array

from dmlax._byte_lookup.api import LOOKUP
from dmlax._byte_lookup.plan import Lookup
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul_lookup.plan import MatmulLookup, MatmulLookupPlan


def run(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Runs the two operators."""
    product = QUANTIZED.call(plan.product, operands.product)
    return LOOKUP.call(plan.lookup, Lookup(product, operands.table))
