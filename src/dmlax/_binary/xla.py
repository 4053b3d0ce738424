"""The operators on two quantized tensors in plain XLA."""

from jax import Array, lax

from dmlax._binary import arithmetic
from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._core.pairs import map_pairs


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point), broadcasting."""
    return _run(arithmetic.add, plan, operands)


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round(a * b / output_scale) + output_zero_point), broadcasting."""
    return _run(arithmetic.multiply, plan, operands)


def _run(formula: arithmetic.Formula, plan: BinaryPlan, operands: Binary) -> Array:
    a, b, *parameters = operands
    # A fusion would compute the sum that comes before once for every time that this one reads it.
    a, b = lax.optimization_barrier((a, b))
    return map_pairs(arithmetic.bind(formula, plan), a, b, parameters, plan.output)
