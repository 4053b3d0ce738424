"""Plans an attention of 8 bits: two products, and the softmax between them."""

from dataclasses import dataclass
from typing import NamedTuple

from dmlax._core import compat
from dmlax._core.arguments import Aval
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._softmax.plan import Softmax, SoftmaxPlan


class Attention(NamedTuple):
    """The operands of the three calls; the result of a call is absent in the next."""

    scores: ProductOperands
    softmax: Softmax
    values: ProductOperands


@dataclass(frozen=True)
class AttentionPlan:
    """Everything static that a lowering reads.

    Attributes:
      heads_last: True if outputs are (..., rows, heads, columns), not (..., heads, rows, columns).
    """

    scores: ProductPlan
    softmax: SoftmaxPlan
    values: ProductPlan
    heads_last: bool

    @property
    def input(self) -> Aval:
        """The dtype and shape of the queries."""
        return self.scores.input

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        dtype, (*batch, rows, columns) = self.values.output
        if self.heads_last:
            *batch, heads = batch
            return Aval(dtype, (*batch, rows, heads, columns))
        return self.values.output

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.scores}; {self.softmax}; {self.values}"


def output_partition(plan: AttentionPlan, operands: Attention) -> compat.Partition:
    """The output is split over a mesh as the queries are."""
    rank = len(plan.output.shape)
    if plan.input.shape[:-1] != plan.values.output.shape[:-1]:
        return (None,) * rank
    *batch, heads, rows, _ = (None, *compat.partition(operands.scores.a))[-rank - 1 :]
    first = (*batch, rows, heads) if plan.heads_last else (*batch, heads, rows)
    return *first[-rank + 1 :], None
