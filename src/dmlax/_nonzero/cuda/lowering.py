"""nonzero_coordinates on Hopper GPUs: one pass over the input, coordinates written once.

The kernel itself is in `kernel`, imported only where it is lowered.
"""

import functools

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability
from dmlax._nonzero.plan import RULES, NonzeroPlan
from dmlax._nonzero.result import NonzeroCoordinates


def why_not(plan: NonzeroPlan, platform: str) -> str | None:
    """None, or the sentence that says why it cannot run."""
    if why := capability.why_not(platform):
        return why
    if plan.axis_name is not None:
        return "it does not count over several devices"
    if plan.size * plan.coordinate_rank >= 2**40:
        return "its coordinates are larger than any GPU's memory"
    return None


def run(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """Runs the kernel; where there is nothing to look at or to write, nothing is launched."""
    refused = functools.partial(why_not, plan)
    input = capability.refuse_elsewhere(RULES.operator, input, refused)
    if plan.elements == 0:
        rows = jnp.full(plan.coordinates.shape, jnp.uint32(plan.fill_value))
        return NonzeroCoordinates(jnp.uint32(0), rows)
    from dmlax._nonzero.cuda import kernel

    launch = kernel.Launch.of(plan, capability.multiprocessors())
    compact = jax.custom_batching.sequential_vmap(functools.partial(kernel.compact, plan, launch))
    count, rows = compact(input.reshape(-1))
    rows = rows[: plan.size * plan.coordinate_rank].reshape(plan.coordinates.shape)
    return NonzeroCoordinates(count.reshape(()), rows)
