"""A product of 8 bits, and the sum of its result and an addend, or a lookup of its bytes."""

from jax import Array

from dmlax._core import dispatch
from dmlax._cuda import capability, first_use
from dmlax._fused.matmul_epilogue import plan, xla
from dmlax._fused.matmul_epilogue.cuda import lowering as mosaic_gpu
from dmlax._fused.matmul_epilogue.plan import (
    MatmulAdd,
    MatmulAddPlan,
    MatmulLookup,
    MatmulLookupPlan,
)

MATMUL_ADD = dispatch.Operator(
    "quantized_linear_matrix_multiply_add",
    plan.plan_sum,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.add, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.add),
    ),
    partition=plan.partition_of_sum,
    splitting=dispatch.Splitting(plan.axis_names_of_sum, plan.local_plan_of_sum),
)
MATMUL_LOOKUP = dispatch.Operator(
    "quantized_linear_matrix_multiply_lookup",
    plan.plan_lookup,
    (
        first_use.unless_not_run(
            dispatch.kernel("mosaic_gpu", mosaic_gpu.look_up, mosaic_gpu.why_not, "cuda")
        ),
        dispatch.Lowering("xla", xla.look_up),
    ),
    partition=plan.partition_of_lookup,
    splitting=dispatch.Splitting(plan.axis_names_of_lookup, plan.local_plan_of_lookup),
)


def multiply_and_add(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Computes the sum; in two calls where the sum is exact or no GPU has the kernel."""
    if plan.sum.arithmetic == "exact" or capability.why_not("cuda"):
        return compose(plan, operands)
    return MATMUL_ADD.call(plan, operands)


def compose(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Computes the sum in two calls."""
    return xla.add(plan, operands)


def multiply_and_look_up(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Computes the entries; in two calls where no GPU has the kernel."""
    if capability.why_not("cuda"):
        return xla.look_up(plan, operands)
    return MATMUL_LOOKUP.call(plan, operands)
