"""A product whose kernel adds or looks up before it stores."""

from jax import Array

from dmlax._cuda.product_types import Addend, SumTypes
from dmlax._fused.matmul_epilogue import xla
from dmlax._fused.matmul_epilogue.plan import (
    MatmulAdd,
    MatmulAddPlan,
    MatmulLookup,
    MatmulLookupPlan,
)
from dmlax._operators.byte_lookup.cuda.lowering import table_of_bytes
from dmlax._operators.matmul.cuda import lowering as product


def why_not(plan: MatmulAddPlan | MatmulLookupPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := product.why_not_fused(plan.product, platform):
        return why
    return None if plan.output.size else "its output is empty"


def add(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Runs the product's kernel with the addend, where wide tiles have space for it."""
    terms, name = operands.sum._asdict(), plan.addend_term
    addend = Addend(
        terms[name].reshape(-1, plan.product.output.shape[-1]),
        terms[f"{name}_scale"],
        terms[f"{name}_zero_point"],
        terms["output_scale"],
        terms["output_zero_point"],
    )
    types = SumTypes(addend.addend.dtype, plan.output.dtype, plan.addend_first)
    sums = product.run_with_sum(plan.product, operands.product, types, addend)
    return xla.add(plan, operands) if sums is None else sums.reshape(plan.output.shape)


def look_up(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Runs the product's kernel with the table."""
    entries = table_of_bytes(plan.lookup, operands.table)
    output = product.run_with_lookup(plan.product, operands.product, entries)
    return output.astype(plan.output.dtype)
