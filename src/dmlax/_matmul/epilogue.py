"""The epilogue of a matrix product: from int32 sums to what the operator gives."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._matmul.plan import Product, ProductPlan
from dmlax._matmul.prepare import as_parameter


def epilogue(plan: ProductPlan, operands: Product) -> Callable[[Array], Array]:
    """Returns sums (..., M, N) -> output."""
    bias = None if operands.bias is None else plan.as_output(operands.bias)
    if plan.quantized:
        zero_point = operands.output_zero_point
        return requantize.requantizer(
            as_parameter(operands.a_scale),
            as_parameter(operands.b_scale),
            as_parameter(operands.output_scale),
            None if zero_point is None else as_parameter(zero_point),
            plan.output.dtype,
            plan.arithmetic,
            bias,
        )
    if not plan.scaled:
        return lambda sums: sums
    a_scale, b_scale = as_parameter(operands.a_scale), as_parameter(operands.b_scale)
    dtype = plan.output.dtype
    return lambda sums: requantize.scale_sums(sums, a_scale, b_scale, bias, dtype, plan.arithmetic)


def as_int32(parameter: Array | None) -> Array:
    """Converts a zero point to int32; an absent one is 0."""
    return jnp.int32(0) if parameter is None else as_parameter(parameter).astype(jnp.int32)
