"""The epilogue of a matrix product: from int32 sums to what the operator gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core import requantize
from dmlax._core.arguments import expand_rank
from dmlax._operators.matmul.plan import Operands, ProductPlan
from dmlax._operators.matmul.prepare import as_parameter


def epilogue(plan: ProductPlan, operands: Operands) -> Callable[[Array], Array]:
    """Returns sums (..., M, N) -> output."""
    rank = len(plan.batch) + 2

    def expand(parameter: Array) -> Any:
        return expand_rank(as_parameter(parameter), rank)

    bias = None if operands.bias is None else plan.as_output(operands.bias)
    if plan.quantized:
        scales = operands.a_scale, operands.b_scale, operands.output_scale
        parameters = *scales, operands.output_zero_point, operands.threshold
        a, b, y, zero, threshold = jax.tree.map(expand, parameters)
        return requantize.requantizer(
            *(a, b, y, zero, plan.output.dtype, plan.arithmetic, bias, threshold),
            requantization=plan.requantization,
        )
    if not plan.scaled:
        return lambda sums: sums
    a_scale, b_scale = expand(operands.a_scale), expand(operands.b_scale)
    dtype = plan.output.dtype
    return lambda sums: requantize.scale_sums(sums, a_scale, b_scale, bias, dtype, plan.arithmetic)


def finish(plan: ProductPlan, operands: Operands, sums: Array) -> Array:
    """The bias and the requantization of sums, in the output's shape."""
    of_batch = sums.reshape(*plan.batch, plan.rows, plan.columns)
    return epilogue(plan, operands)(of_batch).reshape(plan.output.shape)


def as_int32(parameter: Array | None, rank: int) -> Array:
    """Converts a zero point to int32, of a rank or a scalar; an absent one is 0."""
    if parameter is None:
        return jnp.zeros((), jnp.int32)
    expanded: Array = expand_rank(as_parameter(parameter), rank).astype(jnp.int32)
    return expanded


def has_column_epilogue(plan: ProductPlan) -> bool:
    """True if scales and the output's zero point are one value or one per column, as the bias."""
    operands = plan.operands
    single = (operands.a_scale, operands.output_scale, operands.output_zero_point)
    per_column = (operands.b_scale, operands.bias)
    vector = len(plan.matrix.matrix.shape) == 1
    return all(aval is None or aval.size == 1 for aval in single) and all(
        aval is None or aval.size == 1 or (not vector and aval.size == aval.shape[-1])
        for aval in per_column
    )
