"""The operators on two tensors by the CPU engine's kernels."""

from typing import Any

from jax import Array

from dmlax._binary import arithmetic
from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._cpu import binary


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """One call."""
    a, b = arithmetic.quantized(operands)
    if plan.is_swapped:
        a, b = b, a
    return binary.add(a, b, *_result(plan, operands))


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """One call."""
    return binary.multiply(*arithmetic.quantized(operands), *_result(plan, operands))


def _result(plan: BinaryPlan, operands: Binary) -> tuple[Any, ...]:
    dtype = plan.output.dtype
    return operands.output_scale, operands.output_zero_point, dtype, plan.arithmetic
