"""The operators on two tensors by the CPU engine's kernels."""

from jax import Array

from dmlax._cpu import binary, library
from dmlax._operators.add_multiply import arithmetic
from dmlax._operators.add_multiply.plan import BinaryPlan, Operands


def why_not(plan: BinaryPlan, platform: str) -> str | None:
    """Refuses what the kernel does not compute."""
    if plan.requantization is not None:
        return f"its kernel lacks requantization {plan.requantization}"
    return library.why_not(platform)


def run(plan: BinaryPlan, operands: Operands) -> Array:
    """Makes one call."""
    a, b = arithmetic.quantized(operands)
    if plan.kind == "add" and plan.is_swapped:
        a, b = b, a
    scale, zero_point = operands.output_scale, operands.output_zero_point
    return binary.combine(plan.kind, a, b, scale, zero_point, plan.output.dtype, plan.arithmetic)
