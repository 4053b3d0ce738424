"""The formulas of both operators, of arrays that broadcast."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from dmlax._core import float_bits, requantize
from dmlax._core.pairs import Function
from dmlax._core.quantized_sum import Quantized, quantized_sum
from dmlax._operators.add_multiply.plan import Binary, BinaryPlan, Kind, Operands


def add(plan: BinaryPlan, operands: Operands) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point)."""
    a, b = quantized(operands)
    if plan.is_swapped:
        a, b = b, a
    return quantized_sum(
        a, b, operands.output_scale, operands.output_zero_point, plan.output.dtype, plan.arithmetic
    )


def multiply(plan: BinaryPlan, operands: Operands) -> Array:
    """clamp(round(a * b / output_scale) + output_zero_point)."""
    a, b = quantized(operands)
    product = a.steps * b.steps
    scales = operands.a_scale, operands.b_scale, operands.output_scale
    zero_point, dtype = operands.output_zero_point, plan.output.dtype
    if plan.arithmetic == "exact":
        return requantize.requantizer(*scales, zero_point, dtype, "exact")(product)
    zero = jnp.float32(0) if zero_point is None else zero_point.astype(jnp.float32)
    scaled = float_bits.fma(
        product.astype(jnp.float32), requantize.multiplier(*scales), jnp.float32(0)
    )
    return requantize.round_float32(float_bits.add(scaled, zero), dtype)


def of_elements(plan: BinaryPlan) -> Function:
    """The plan's formula as a function of both tensors and of the other operands, single values."""

    def function(a: Array, b: Array, parameters: Sequence[Array | None]) -> Array:
        values: Iterable[Any] = (None if x is None else x.reshape(()) for x in parameters)
        return FORMULAS[plan.kind](plan, Binary(a, b, *values))

    return function


FORMULAS: dict[Kind, Callable[[BinaryPlan, Operands], Array]] = {"add": add, "multiply": multiply}


def quantized(operands: Operands) -> tuple[Quantized, Quantized]:
    """Tensors with their parameters."""
    a = Quantized(operands.a, operands.a_scale, operands.a_zero_point)
    return a, Quantized(operands.b, operands.b_scale, operands.b_zero_point)
