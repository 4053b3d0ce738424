"""Plans a product of 8 bits and a lookup of its result as one call."""

from jax import Array

from dmlax._byte_lookup.plan import lookup_plan
from dmlax._core.arguments import aval_of
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._matmul_lookup.plan import MatmulLookup, MatmulLookupPlan


def plan(
    product: tuple[ProductPlan, ProductOperands], table: Array
) -> tuple[MatmulLookupPlan, MatmulLookup]:
    """Plans both as one call, of a planned product and a table of 256 bytes."""
    lookup = lookup_plan(product[0].output, aval_of(table))
    return MatmulLookupPlan(product[0], lookup), MatmulLookup(product[1], table)
