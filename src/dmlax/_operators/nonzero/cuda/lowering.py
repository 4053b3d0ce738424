"""nonzero_coordinates on Hopper GPUs: one pass over the input, coordinates written once.

The kernel is in `kernel`, which is imported only where it is lowered.
"""

import functools

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability
from dmlax._operators.nonzero.plan import RULES, NonzeroPlan
from dmlax._operators.nonzero.result import NonzeroCoordinates


def why_not(plan: NonzeroPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if plan.axis_name is not None:
        return "it does not count over several devices"
    if plan.size * plan.coordinate_rank >= 2**40:
        return "its coordinates are larger than any GPU's memory"
    return None


def run(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """Runs the kernel; launches none for an empty input."""
    refused = functools.partial(why_not, plan)
    input = capability.refuse_elsewhere(RULES.operator, input, refused)
    if plan.elements == 0:
        rows = jnp.full(plan.coordinates.shape, jnp.uint32(plan.fill_value))
        return NonzeroCoordinates(jnp.uint32(0), rows)
    from dmlax._operators.nonzero.cuda import kernel

    tile = kernel.Tile.of(plan, capability.multiprocessors())
    compact = jax.custom_batching.sequential_vmap(functools.partial(kernel.compact, tile))
    count, rows = compact(input.reshape(-1))
    rows = rows[: plan.size * plan.coordinate_rank].reshape(plan.coordinates.shape)
    return NonzeroCoordinates(count.reshape(()), rows)
