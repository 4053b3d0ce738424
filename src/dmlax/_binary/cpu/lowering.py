"""The operators on two tensors in C++ (`binary.cc`), which broadcasts them itself."""

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._cpu import library


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    return _call("dmlax_quantized_add", plan, _swap(operands) if plan.is_swapped else operands)


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """One call; `vmap` puts its axes before each operand's."""
    return _call("dmlax_quantized_multiply", plan, operands)


def why_not(plan: BinaryPlan, platform: str) -> str | None:
    """Refuses other platforms, and every platform where there is no library."""
    return library.why_not(platform)


def _swap(operands: Binary) -> Binary:
    a, b, a_scale, b_scale, output_scale, a_zero_point, b_zero_point, zero_point = operands
    return Binary(b, a, b_scale, a_scale, output_scale, b_zero_point, a_zero_point, zero_point)


def _call(target: str, plan: BinaryPlan, operands: Binary) -> Array:
    dtypes = operands.a.dtype, operands.b.dtype, plan.output.dtype
    zero_points = (
        jnp.zeros((), dtype) if point is None else point
        for point, dtype in zip(operands[5:], dtypes, strict=True)
    )
    rank = len(plan.output.shape)
    scales = operands.a_scale, operands.b_scale, operands.output_scale
    output = jax.ShapeDtypeStruct(plan.output.shape, plan.output.dtype)
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    return call(
        *(x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (operands.a, operands.b)),
        *(x.reshape((1,) * rank) for x in (*scales, *zero_points)),
        exact=plan.arithmetic == "exact",
    )
