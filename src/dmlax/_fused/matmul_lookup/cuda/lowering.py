"""A product whose kernel looks bytes up before it stores them."""

from jax import Array

from dmlax._fused.matmul_lookup.plan import MatmulLookup, MatmulLookupPlan
from dmlax._operators.byte_lookup.cuda.lowering import table_of_bytes
from dmlax._operators.matmul.cuda import lowering as product


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
