"""Functions of two 8-bit tensors in plain XLA: by a table of every pair where that is faster.

A TPU gathers slowly, and computes each element.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import compat
from dmlax._core.arguments import Aval, expand_rank, structs

_PAIRS = 1 << 16
_WORTH_A_TABLE = 4 * _PAIRS  # elements

Function = Callable[[Array, Array, Any], Array]


def map_pairs(function: Function, a: Array, b: Array, parameters: Any, output: Aval) -> Array:
    """Returns function(a, b, parameters), broadcasting.

    Args:
      function: computes each element from one of each tensor alone.
      a: int8 or uint8.
      b: int8 or uint8.
      parameters: a pytree of single values.
      output: what it returns.
    """
    rank = len(output.shape)
    operands = expand_rank(a, rank), expand_rank(b, rank), parameters
    by_element = functools.partial(_by_element, function, output)
    if not output.is_static or output.size < _WORTH_A_TABLE:
        return by_element(operands)
    by_table = functools.partial(_by_table, function)
    own = {"cpu": by_table, "cuda": by_table}
    return compat.by_platform(operands, structs(output), by_element, own)  # type: ignore[no-any-return]


def _by_element(function: Function, output: Aval, operands: tuple[Array, Array, Any]) -> Array:
    return jnp.broadcast_to(function(*operands), output.shape)


def _by_table(function: Function, operands: tuple[Array, Array, Any]) -> Array:
    *tensors, parameters = operands
    every = jnp.arange(256, dtype=jnp.uint8)
    a, b = (lax.bitcast_convert_type(every, x.dtype) for x in tensors)
    table = function(a[:, None], b[None], parameters).reshape(_PAIRS)
    rows, columns = (lax.bitcast_convert_type(x, jnp.uint8).astype(jnp.int32) for x in tensors)
    return table.at[rows * 256 + columns].get(mode="promise_in_bounds")
