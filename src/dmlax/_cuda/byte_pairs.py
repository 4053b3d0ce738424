"""Functions of two 8-bit tensors on Hopper GPUs: a table of every pair in shared memory."""

import jax.numpy as jnp
from jax import Array

from dmlax._core import pairs
from dmlax._core.arguments import Aval


def map_pairs(
    name: str,
    function: pairs.Function,
    a: Array,
    b: Array,
    parameters: object,
    output: Aval,
    table: Array | None = None,
) -> Array:
    """Returns function(a, b, parameters), broadcasting.

    XLA computes small outputs by element, unless the table is known.

    Args:
      name: what profilers show.
      function: computes an element of the output from one element of `a` and one of `b`.
      a: int8 or uint8.
      b: int8 or uint8.
      parameters: a pytree of single values.
      output: what it returns, of the rank of both.
      table: uint8, the table of the function, if it is known.
    """
    if table is None and not pairs.is_worth_a_table(output):
        return pairs.map_each_pair(function, output, (a, b, parameters))
    from dmlax._cuda import byte_table

    if table is None:
        table = pairs.make_table(function, a.dtype, b.dtype, parameters, pairs.spread_over_banks)
    operands = (x.astype(jnp.uint8) for x in (table, a, b))
    return byte_table.look_up(name, *operands).astype(output.dtype)
