"""The operators on two quantized tensors in plain XLA."""

from jax import Array

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
    return map_pairs(arithmetic.bind(formula, plan), a, b, parameters, plan.output)
