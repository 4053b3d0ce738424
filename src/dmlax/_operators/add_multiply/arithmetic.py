"""The formulas of both operators, of arrays that broadcast."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import fixed_point, float_bits, requantize
from dmlax._core.fixed_point import Multiplier
from dmlax._core.pairs import Function
from dmlax._core.quantized_sum import (
    Quantized,
    SumFactors,
    quantized_sum,
    sum_by_factors,
    sum_factors,
)
from dmlax._operators.add_multiply.plan import Binary, BinaryPlan, Kind, Operands


def add(plan: BinaryPlan, operands: Operands) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point)."""
    a, b = quantized(operands)
    if plan.requantization is not None:
        scales = operands.a_scale, operands.b_scale, operands.output_scale
        by: Any = operands.factors or sum_factors(plan.requantization, *scales)
        return _finish(plan, operands, sum_by_factors(plan.requantization, a.steps, b.steps, by))
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
    if plan.requantization is not None:
        by: Any = operands.factors or _product_factor(*scales)
        return _finish(plan, operands, fixed_point.scale_half_away(product, by))
    if plan.arithmetic == "exact":
        return requantize.requantizer(*scales, zero_point, dtype, "exact")(product)
    zero = jnp.float32(0) if zero_point is None else zero_point.astype(jnp.float32)
    scaled = float_bits.fma(
        product.astype(jnp.float32), requantize.multiplier(*scales), jnp.float32(0)
    )
    return requantize.round_float32(float_bits.add(scaled, zero), dtype)


def _product_factor(a_scale: Array, b_scale: Array, output_scale: Array) -> Multiplier:
    one = jnp.float32(1)
    return Multiplier.of_quotient(requantize.multiplier(a_scale, b_scale, output_scale), one, one)


def known_factors(plan: BinaryPlan, a: Any, b: Any, output: Any) -> SumFactors | Multiplier:
    """The factors of known scales."""
    a, b, output = (np.float32(np.asarray(x).reshape(())) for x in (a, b, output))
    with np.errstate(all="ignore"):
        if plan.kind == "add":
            assert plan.requantization is not None
            return sum_factors(plan.requantization, a, b, output)
        return Multiplier.of(float(a * b / output))


def _finish(plan: BinaryPlan, operands: Operands, rounded: Array) -> Array:
    """Adds the zero point to what is far beyond a byte at most, and clamps."""
    limited = jnp.clip(rounded, -512, 512)
    return requantize.saturate(limited, operands.output_zero_point, plan.output.dtype)


def of_elements(plan: BinaryPlan) -> Function:
    """The plan's formula as a function of both tensors and of the other operands, single values."""

    def function(a: Array, b: Array, parameters: Sequence[Array | None]) -> Array:
        values: Iterable[Any] = jax.tree.map(lambda x: x.reshape(()), tuple(parameters))
        return FORMULAS[plan.kind](plan, Binary(a, b, *values))

    return function


FORMULAS: dict[Kind, Callable[[BinaryPlan, Operands], Array]] = {"add": add, "multiply": multiply}


def quantized(operands: Operands) -> tuple[Quantized, Quantized]:
    """Tensors with their parameters."""
    a = Quantized(operands.a, operands.a_scale, operands.a_zero_point)
    return a, Quantized(operands.b, operands.b_scale, operands.b_zero_point)
