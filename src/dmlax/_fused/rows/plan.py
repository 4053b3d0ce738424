"""Plans the float operators of rows from shapes and dtypes alone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core.arguments import ABSENT, Aval, aval_of
from dmlax._core.plans import BasePlan


class Rows(NamedTuple):
    """The operands: rows, and for a normalization the factors and any addends of columns."""

    input: Array
    scale: Array = ABSENT  # a normalization's factors, or the float of every byte for an average
    bias: Array | None = None


@dataclass(frozen=True)
class RowsPlan(BasePlan):
    """All that is static of a normalization or a softmax of the last axis.

    Attributes:
      epsilon: added to the variance.
      is_centred: False for a division by root mean squares, which subtracts no mean.
    """

    input: Aval
    epsilon: float = 0.0
    is_centred: bool = True

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the result."""
        return self.input

    def __str__(self) -> str:
        return f"{self.input} along the last axis"


@dataclass(frozen=True)
class AveragePlan(RowsPlan):
    """All that is static of an average over pixels, the axis before the last."""

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the result."""
        return Aval(np.dtype(np.float32), (*self.input.shape[:-2], self.input.shape[-1]))


def plan_average(x: ArrayLike, table: np.ndarray | None = None) -> tuple[AveragePlan, Rows]:
    """Plans an average of pixels whose channels are last: float32, or bytes and their floats.

    The table is by ascending bytes.
    """
    x = jnp.asarray(x)
    if table is None:
        return AveragePlan(aval_of(x)), Rows(x)
    by_bits = np.roll(table, 128) if x.dtype == np.int8 else table
    return AveragePlan(aval_of(x)), Rows(x, jnp.asarray(by_bits))


def local_plan(plan: RowsPlan, operands: Rows) -> tuple[RowsPlan, Rows]:
    """Plans for a part of the rows."""
    return replace(plan, input=aval_of(operands.input)), operands


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
