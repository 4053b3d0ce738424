"""The operators on two quantized tensors on Hopper GPUs: a table of every pair in shared memory."""

import functools

from jax import Array

from dmlax._binary import arithmetic
from dmlax._binary.plan import Binary, BinaryPlan
from dmlax._core.arguments import expand_rank
from dmlax._cuda import byte_pairs, capability


def why_not(plan: BinaryPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if not plan.output.is_static:
        return f"it needs static shapes, and this is {plan}"
    return capability.why_not_so_many(plan.output)


def add(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round((a + b) / output_scale) + output_zero_point), broadcasting."""
    return _run("element_wise_quantized_linear_add", arithmetic.add, plan, operands)


def multiply(plan: BinaryPlan, operands: Binary) -> Array:
    """clamp(round(a * b / output_scale) + output_zero_point), broadcasting."""
    return _run("element_wise_quantized_linear_multiply", arithmetic.multiply, plan, operands)


def _run(name: str, formula: arithmetic.Formula, plan: BinaryPlan, operands: Binary) -> Array:
    """Runs the kernel on unsigned bytes; XLA computes each element where there are few."""
    a, b, *parameters = operands
    a = capability.refuse_elsewhere(name, a, functools.partial(why_not, plan))
    function, rank = arithmetic.bind(formula, plan), len(plan.output.shape)
    a, b = (expand_rank(x, rank, scalars=True) for x in (a, b))
    return byte_pairs.map_pairs(f"dmlax_{name}", function, a, b, parameters, plan.output)
