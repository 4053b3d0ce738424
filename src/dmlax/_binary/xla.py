"""The operators on two quantized tensors in plain XLA.

Where there are more elements than pairs of bytes, a table has the result of every pair. A TPU
gathers slowly, and computes each element.
"""

import functools

import jax.numpy as jnp
from jax import Array, lax

from dmlax._binary import arithmetic
from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._core import compat
from dmlax._core.arguments import structs

_PAIRS = 1 << 16
_WORTH_A_TABLE = 4 * _PAIRS  # elements


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point), broadcasting."""
    return _run(arithmetic.add, plan, operands)


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round(a * b / output_scale) + output_zero_point), broadcasting."""
    return _run(arithmetic.multiply, plan, operands)


def _run(formula: arithmetic.Formula, plan: BinaryPlan, operands: Binary) -> Array:
    a, b, *parameters = operands
    values = (None if x is None else x.reshape(()) for x in parameters)
    operands = Binary(a, b, *values)
    by_element = functools.partial(_by_element, formula, plan)
    if not plan.output.is_static or plan.output.size < _WORTH_A_TABLE:
        return by_element(operands)
    by_table = functools.partial(_by_table, formula, plan)
    return compat.by_platform(  # type: ignore[no-any-return]
        operands, structs(plan.output), by_element, {"cpu": by_table, "cuda": by_table}
    )


def _by_element(formula: arithmetic.Formula, plan: BinaryPlan, operands: Binary) -> Array:
    return jnp.broadcast_to(formula(plan, operands), plan.output.shape)


def _by_table(formula: arithmetic.Formula, plan: BinaryPlan, operands: Binary) -> Array:
    every = jnp.arange(256, dtype=jnp.uint8)
    a, b = (lax.bitcast_convert_type(every, x.dtype) for x in (operands.a, operands.b))
    table = formula(plan, operands._replace(a=a[:, None], b=b)).reshape(_PAIRS)
    rows, columns = (
        lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.int32) for x in (operands.a, operands.b)
    )
    return table.at[rows * 256 + columns].get(mode="promise_in_bounds")
