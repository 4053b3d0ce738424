"""Batching rule of a kernel: one launch for a mapped call, or a loop. It imports no Pallas."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

OutputT = TypeVar("OutputT")  # an array, or a pytree of arrays


def call_merged(
    function: Callable[..., OutputT],
    merge: Callable[[int, Sequence[Any], tuple[Any, ...]], OutputT | None],
    *operands: object,
) -> OutputT:
    """Calls a function whose calls `jax.vmap` merges into one.

    Args:
      function: takes the operands.
      merge: takes the mapped axis's size, which operands are mapped, and the operands; returns the
        outputs of one call, or None where a loop calls `function`. The size is not 0.
      operands: pytrees of arrays.
    """
    call = jax.custom_batching.custom_vmap(function)

    @call.def_vmap
    def batched(size: int, mapped: Sequence[Any], *operands: Any) -> tuple[OutputT, Any]:
        outputs = merge(size, mapped, operands) if size else _make_empty(mapped, operands)
        if outputs is None:
            axes = jax.tree.map(lambda is_mapped: 0 if is_mapped else None, tuple(mapped))
            outputs = jax.vmap(jax.custom_batching.sequential_vmap(function), axes)(*operands)
        return outputs, jax.tree.map(lambda output: True, outputs)

    def _make_empty(mapped: Sequence[Any], operands: tuple[Any, ...]) -> OutputT:
        one = jax.tree.map(
            lambda is_mapped, x: jax.ShapeDtypeStruct(x.shape[is_mapped:], x.dtype),
            *(tuple(mapped), operands),
        )
        avals = jax.eval_shape(function, *one)
        outputs: OutputT = jax.tree.map(lambda x: jnp.zeros((0, *x.shape), x.dtype), avals)
        return outputs

    output: OutputT = call(*operands)
    return output


def call_on_rows(function: Callable[..., Array], x: Array, *shared: Array) -> Array:
    """Calls a function of rows and of operands that all rows share; mapped rows are more rows."""

    def merge(size: int, mapped: Sequence[bool], operands: tuple[Array, ...]) -> Array | None:
        return None if any(mapped[1:]) else call_on_rows(function, *operands)

    return call_merged(function, merge, x, *shared)
