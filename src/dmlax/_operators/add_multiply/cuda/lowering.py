"""The operators on two quantized tensors on Hopper GPUs: a table of every pair in shared memory."""

import functools

from jax import Array

from dmlax._core.arguments import expand_rank
from dmlax._cuda import byte_pairs, capability
from dmlax._operators.add_multiply import arithmetic
from dmlax._operators.add_multiply.plan import BinaryPlan, Operands


def why_not(plan: BinaryPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if not plan.output.is_static:
        return f"it needs static shapes, and this is {plan}"
    return capability.why_not_so_many(plan.output)


def run(plan: BinaryPlan, operands: Operands) -> Array:
    """Runs the kernel on unsigned bytes; XLA computes few elements."""
    name = f"element_wise_quantized_linear_{plan.kind}"
    a = capability.refuse_elsewhere(name, operands.a, functools.partial(why_not, plan))
    function, rank = arithmetic.of_elements(plan), len(plan.output.shape)
    a, b = (expand_rank(x, rank, scalars=True) for x in (a, operands.b))
    parameters, table = operands.parameters, operands.table
    return byte_pairs.map_pairs(f"dmlax_{name}", function, a, b, parameters, plan.output, table)
