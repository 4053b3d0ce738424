"""A product of 8 bits, and a table's entries for the bytes of its result."""

from jax import Array

from dmlax._core import dispatch
from dmlax._cuda import capability
from dmlax._fused.matmul_lookup import xla
from dmlax._fused.matmul_lookup.cuda import lowering as mosaic_gpu
from dmlax._fused.matmul_lookup.plan import (
    MatmulLookup,
    MatmulLookupPlan,
    axis_names,
    local_plan,
    output_partition,
    plan,
)

MATMUL_LOOKUP = dispatch.Operator(
    "quantized_linear_matrix_multiply_lookup",
    plan,
    (
        dispatch.kernel("mosaic_gpu", mosaic_gpu.run, mosaic_gpu.why_not, "cuda"),
        dispatch.Lowering("xla", xla.run),
    ),
    partition=output_partition,
    splitting=dispatch.Splitting(axis_names, local_plan),
)


def multiply_and_look_up(plan: MatmulLookupPlan, operands: MatmulLookup) -> Array:
    """Computes the entries; in two calls where no GPU has the kernel."""
    if capability.why_not("cuda"):
        return xla.run(plan, operands)
    return MATMUL_LOOKUP.call(plan, operands)
