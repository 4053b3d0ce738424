"""Batching rule of a kernel: one launch for all images, or a loop. It imports no Pallas."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._core.arguments import Aval

OperandsT = TypeVar("OperandsT")  # an array or a NamedTuple of arrays


def with_batching(
    function: Callable[[OperandsT], Array],
    output: Aval,
    merge: Callable[[int, OperandsT, OperandsT], Array | None],
) -> Callable[[OperandsT], Array]:
    """Gives a function a batching rule.

    Args:
      function: launches a kernel.
      output: the dtype and shape of its result.
      merge: runs a mapped call at once, from the batch's size, the operands' flags, which say
        whether they are mapped, and the operands; returns None where a loop must run it.
    """
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def batched(
        size: int, arguments: tuple[OperandsT], operands: OperandsT
    ) -> tuple[Array | None, bool]:
        (mapped,) = arguments
        if size == 0:
            return jnp.zeros((0, *output.shape), output.dtype), True
        result = merge(size, mapped, operands)
        if result is None:
            axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, mapped)
            one_by_one = jax.custom_batching.sequential_vmap(function)
            result = jax.vmap(one_by_one, (axes,))(operands)
        return result, True

    return call
