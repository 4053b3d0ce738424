"""The operators on two quantized tensors in plain XLA."""

from typing import Any

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
    def function(a: Array, b: Array, parameters: Any) -> Array:
        return formula(plan, Binary(a, b, *parameters))

    a, b, *parameters = operands
    values = [None if x is None else x.reshape(()) for x in parameters]
    return map_pairs(function, a, b, values, plan.output)
