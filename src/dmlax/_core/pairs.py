"""Functions of two 8-bit tensors in plain XLA: by a table of every pair where that is faster.

A TPU gathers slowly, so it computes every element.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import choice, float_bits
from dmlax._core.arguments import Aval, expand_rank, structs

BANK_BITS = 0x7C  # the bits of an address in a GPU's shared memory that name one of 32 banks
_PAIRS = 1 << 16
_WORTH_A_TABLE = 4 * _PAIRS  # elements

Function = Callable[[Array, Array, Any], Array]
BytesT = TypeVar("BytesT", Array, np.ndarray, Any)


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
    by_element = functools.partial(map_each_pair, function, output)
    if not is_worth_a_table(output):
        return by_element(operands)
    by_table = functools.partial(_by_table, function)
    tabled = {"cpu": by_table, "cuda": by_table}
    return choice.by_platform(operands, structs(output), by_element, tabled)


def is_worth_a_table(output: Aval) -> bool:
    """True for so many elements that a table of every pair is faster."""
    return output.is_static and output.size >= _WORTH_A_TABLE


def make_table(
    function: Function,
    a: DTypeLike,
    b: DTypeLike,
    parameters: Any,
    place: Callable[[Array, Array], Array] = lambda a, b: b,
) -> Array:
    """The results of every pair of two dtypes: at 256 * i + place(i, j) that of bytes i and j.

    `place`, of uint8, is its own inverse.
    """
    every = jnp.arange(256, dtype=jnp.uint8)
    first, second = every[:, None], place(every[:, None], every[None])
    left, right = float_bits.bitcast(first, a), float_bits.bitcast(second, b)
    return function(left, right, parameters).reshape(_PAIRS)


def spread_over_banks(first: BytesT, second: BytesT) -> BytesT:
    """The second byte of a pair's place in a table: pairs that share a byte differ in bank."""
    place: BytesT = second ^ ((first << 2) & BANK_BITS)
    return place


def map_each_pair(function: Function, output: Aval, operands: tuple[Array, Array, Any]) -> Array:
    """Computes each element by itself; the operands have the output's rank."""
    return jnp.broadcast_to(function(*operands), output.shape)


def _by_table(function: Function, operands: tuple[Array, Array, Any]) -> Array:
    a, b, parameters = operands
    table = make_table(function, a.dtype, b.dtype, parameters)
    rows, columns = (float_bits.bitcast(x, jnp.uint8).astype(jnp.int32) for x in (a, b))
    return table.at[rows * 256 + columns].get(mode="promise_in_bounds")
