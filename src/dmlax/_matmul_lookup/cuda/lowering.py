"""A product whose kernel looks bytes up before it stores them."""

from jax import Array

from dmlax._byte_lookup.cuda.lowering import table_of_bytes
from dmlax._matmul.cuda import lowering as product
from dmlax._matmul_lookup.plan import MatmulLookup, MatmulLookupPlan


def why_not(plan: MatmulLookupPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := product.why_not_fused(plan.product, platform):
        return why
    return None if plan.output.size else "its output is empty"


def run(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Runs the product's kernel, with the table."""
    entries = table_of_bytes(plan.lookup, operands.table)
    output = product.run_with_lookup(plan.product, operands.product, entries)
    return output.astype(plan.output.dtype)
