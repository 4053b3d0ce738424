"""Converts the arguments of the float operators of rows to operands."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike

from dmlax._core.arguments import aval_of
from dmlax._rows.plan import Rows, RowsPlan


def plan(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    epsilon: float = 0.0,
    is_centred: bool = True,
) -> tuple[RowsPlan, Rows]:
    """Plans a call, and returns its operands."""
    factors: Iterable[Any] = (x if x is None else jnp.asarray(x) for x in (scale, bias))
    operands = Rows(jnp.asarray(x), *factors)
    return RowsPlan(aval_of(operands.input), epsilon, is_centred), operands
