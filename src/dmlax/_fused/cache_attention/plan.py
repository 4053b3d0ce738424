"""Plans an attention of rows to a cache of keys and values."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import Aval, aval_of
from dmlax._core.axis_names import AxisNames, whole
from dmlax._core.plans import BasePlan


class Caches(NamedTuple):
    """The operands.

    Attributes:
      q: [batch, heads, rows, size].
      keys: [batch, groups, places, size]; groups divide the heads.
      values: [batch, groups, places, value size].
      ranges: the first place that a row sees, and the one after its last: int32[batch, rows, 2].
      sinks: a score of every head, of a key without a value, [batch, heads]; or [batch, 0].
    """

    q: Array
    keys: Array
    values: Array
    ranges: Array
    sinks: Array


@dataclass(frozen=True)
class CachePlan(BasePlan):
    """All that is static of an attention to a cache.

    Attributes:
      keys: their dtype and shape.
      values: their dtype and shape.
      scale: of the scores.
      softcap: bounds the scores; 0 does not.
      has_sinks: True if heads have a key without a value.
    """

    input: Aval
    keys: Aval
    values: Aval
    scale: float
    softcap: float
    has_sinks: bool

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the result."""
        return Aval(self.input.dtype, (*self.input.shape[:-1], self.values.shape[-1]))

    def __str__(self) -> str:
        return f"{self.input} to a cache of {self.keys}"


_HEADS = "group.member"


def axis_names(plan: CachePlan, operands: Caches) -> AxisNames:
    """Sequences, rows, groups and the heads of a group may be split."""
    q, cache = f"batch {_HEADS} row -", "batch group - -"
    sinks = f"batch {_HEADS}" if plan.has_sinks else whole(operands.sinks).replace("-", "batch", 1)
    names = (q, cache, cache, "batch row -", sinks)
    return AxisNames(names, q, (("group", plan.keys.shape[1]),))


def local_plan(plan: CachePlan, operands: Caches) -> tuple[CachePlan, Caches]:
    """Plans for a part of the sequences, rows and heads."""
    q, keys, values = map(aval_of, operands[:3])
    return replace(plan, input=q, keys=keys, values=values), operands


def plan(operands: Caches, scale: float, softcap: float) -> tuple[CachePlan, Caches]:
    """Plans an attention, and returns its operands."""
    q, keys, values = map(aval_of, operands[:3])
    has_sinks = operands.sinks.shape[1] > 0
    return CachePlan(q, keys, values, scale, softcap, has_sinks), operands
