"""quantized_lookup on Hopper GPUs: the table in shared memory."""

import functools

import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability
from dmlax._operators.byte_lookup.plan import Lookup, LookupPlan


def why_not(plan: LookupPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    return capability.why_not(platform) or capability.why_not_so_many(plan.output)


def run(plan: LookupPlan, operands: Lookup) -> Array:
    """Runs the kernel on unsigned bytes."""
    refused = functools.partial(why_not, plan)
    input = capability.refuse_elsewhere("quantized_lookup", operands.input, refused)
    from dmlax._cuda import byte_table

    places, table = input.astype(jnp.uint8), table_of_bytes(plan, operands.table)
    entries = byte_table.look_up("dmlax_quantized_lookup", table, places)
    return entries.astype(plan.output.dtype)


def table_of_bytes(plan: LookupPlan, table: Array) -> Array:
    """The table as uint8, in the order of the input's bytes where these are unsigned."""
    entries = table.astype(jnp.uint8)
    return jnp.roll(entries, 128) if plan.input.dtype == jnp.int8 else entries
