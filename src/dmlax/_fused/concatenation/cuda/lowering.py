"""A concatenation of bytes on Hopper GPUs."""

import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.tuning import FEWEST_JOINED_BYTES
from dmlax._fused.concatenation.plan import ConcatenationPlan, Tensors


def why_not(plan: ConcatenationPlan, platform: str) -> str | None:
    """The sentence that says why the kernel does not take the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if not all(input.is_static for input in plan.inputs):
        return f"it needs static shapes, and this is {plan}"
    others = {input.shape[: plan.axis] + input.shape[plan.axis + 1 :] for input in plan.inputs}
    if len(others) > 1:
        return f"sizes differ: {plan}"
    if plan.output.size < FEWEST_JOINED_BYTES:
        return f"its output has fewer than {FEWEST_JOINED_BYTES:,} bytes"
    if any(plan.columns(input) % CHUNK for input in plan.inputs):
        return f"bytes that lie side by side are no multiple of {CHUNK}"
    return capability.why_not_so_many(plan.output)


def run(plan: ConcatenationPlan, tensors: Tensors) -> Array:
    """Runs the kernel on unsigned bytes."""
    from dmlax._fused.concatenation.cuda import kernel

    matrices = (
        x.astype(jnp.uint8).reshape(-1, plan.columns(input))
        for x, input in zip(tensors, plan.inputs, strict=True)
    )
    joined = kernel.concatenate(*(x for x in matrices if x.shape[1]))
    return joined.reshape(plan.output.shape).astype(plan.output.dtype)
