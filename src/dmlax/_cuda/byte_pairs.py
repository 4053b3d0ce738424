"""Functions of two 8-bit tensors on Hopper GPUs: a table of every pair in shared memory."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from dmlax._core import pairs
from dmlax._core.arguments import Aval


def map_pairs(
    name: str, function: pairs.Function, a: Array, b: Array, parameters: Any, output: Aval
) -> Array:
    """Returns function(a, b, parameters), broadcasting; XLA computes each element where few are.

    Args:
      name: what profilers show.
      function: computes each element from one of each tensor alone.
      a: int8 or uint8.
      b: int8 or uint8.
      parameters: a pytree of single values.
      output: what it returns, of the rank of both.
    """
    if not pairs.is_worth_a_table(output):
        return pairs.map_each_pair(function, output, (a, b, parameters))
    from dmlax._cuda import byte_table

    table = pairs.make_table(function, a.dtype, b.dtype, parameters, byte_table.spread_over_banks)
    given = (x.astype(jnp.uint8) for x in (table, a, b))
    return byte_table.look_up(name, *given).astype(output.dtype)
