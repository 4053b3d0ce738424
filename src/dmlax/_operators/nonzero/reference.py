"""The definition of nonzero_coordinates, in a dozen lines of plain JAX."""

import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import float_bits
from dmlax._operators.nonzero.plan import NonzeroPlan
from dmlax._operators.nonzero.result import NonzeroCoordinates


def run(plan: NonzeroPlan, input: Array) -> NonzeroCoordinates:
    """`jnp.nonzero` of the bits, with a static size, and the count."""
    if plan.axis_name is not None:
        input = lax.all_gather(input, plan.axis_name, tiled=True)
    nonzero = float_bits.is_nonzero(input)
    count = nonzero.sum(dtype=jnp.uint32)
    columns = jnp.nonzero(nonzero, size=plan.size)[-plan.coordinate_rank :]
    rows = jnp.stack(columns, axis=-1).astype(jnp.uint32)
    written = jnp.arange(plan.size, dtype=jnp.uint32) < count
    return NonzeroCoordinates(count, jnp.where(written[:, None], rows, jnp.uint32(plan.fill_value)))
