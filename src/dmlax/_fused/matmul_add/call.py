"""A product of 8 bits, and the sum of its result and an addend."""

from jax import Array

from dmlax._core import dispatch
from dmlax._cuda import capability
from dmlax._fused.matmul_add import xla
from dmlax._fused.matmul_add.cuda import lowering as mosaic_gpu
from dmlax._fused.matmul_add.plan import (
    MatmulAdd,
    MatmulAddPlan,
    axis_names,
    local_plan,
    output_partition,
    plan,
)

MATMUL_ADD = dispatch.Operator(
    "quantized_linear_matrix_multiply_add",
    plan,
    (
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


def multiply_and_add(plan: MatmulAddPlan, operands: MatmulAdd) -> Array:
    """Computes the sum; in two calls where the sum is exact or no GPU has the kernel."""
    if plan.sum.arithmetic == "exact" or capability.why_not("cuda"):
        return xla.run(plan, operands)
    return MATMUL_ADD.call(plan, operands)
