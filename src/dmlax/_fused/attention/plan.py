"""Plans an attention of 8 bits: two products, and the softmax between them."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax

from dmlax._core import splitting
from dmlax._core.arguments import ABSENT, Aval
from dmlax._core.axis_names import WHOLE, AxisNames, broadcast, numbered, rename, whole
from dmlax._core.plans import BasePlan
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan
from dmlax._operators.matmul import plan as product
from dmlax._operators.matmul.plan import Operands as ProductOperands
from dmlax._operators.matmul.plan import ProductPlan


class Attention(NamedTuple):
    """The operands of the three calls; the result of a call is absent in the next."""

    scores: ProductOperands
    softmax: Softmax
    values: ProductOperands


@dataclass(frozen=True)
class AttentionPlan(BasePlan):
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

    def __str__(self) -> str:
        return f"{self.scores}; {self.softmax}; {self.values}"


def output_partition(plan: AttentionPlan, operands: Attention) -> splitting.Partition:
    """The output is split over a mesh as the queries are."""
    rank = len(plan.output.shape)
    if plan.input.shape[:-1] != plan.values.output.shape[:-1]:
        return (None,) * rank
    *batch, heads, rows, _ = (None, *splitting.partition(operands.scores.a))[-rank - 1 :]
    first = (*batch, rows, heads) if plan.heads_last else (*batch, heads, rows)
    return *first[-rank + 1 :], None


def plan(
    scores: tuple[ProductPlan, ProductOperands],
    softmax: tuple[SoftmaxPlan, Softmax],
    values: tuple[ProductPlan, ProductOperands],
    heads_last: bool,
) -> tuple[AttentionPlan, Attention]:
    """Plans three planned calls as one, with arrays in the place of the results between."""
    of_all = AttentionPlan(scores[0], softmax[0], values[0], heads_last)
    operands = softmax[1]._replace(input=ABSENT), values[1]._replace(a=ABSENT)
    return of_all, Attention(scores[1], *operands)


def axis_names(plan: AttentionPlan, operands: Attention) -> AxisNames | None:
    """The images, the heads and the queries may be split."""
    scores, values = plan.scores, plan.values
    if scores.batch != values.batch or not scores.batch:
        return None
    batch = numbered(len(scores.batch))
    of_scores = rename(product.axis_names(scores, operands.scores).operands, column=WHOLE)
    b = broadcast(operands.values.b.shape, f"{batch} - -", (*scores.batch, 0, 0))
    of_values = jax.tree.map(whole, operands.values)._replace(b=b)
    names = f"{batch} row {WHOLE}".split()
    if plan.heads_last:
        names[-3:-1] = reversed(names[-3:-1])
    of_softmax = jax.tree.map(whole, operands.softmax)
    return AxisNames(Attention(of_scores, of_softmax, of_values), " ".join(names))


def local_plan(plan: AttentionPlan, operands: Attention) -> tuple[AttentionPlan, Attention]:
    """Plans for a part of the queries."""
    scores, of_scores = product.local_plan(plan.scores, operands.scores)
    softmax = replace(plan.softmax, input=plan.softmax.input._replace(shape=scores.output.shape))
    weights = jax.ShapeDtypeStruct(scores.output.shape, plan.values.input.dtype)
    values, of_values = product.local_plan(plan.values, operands.values._replace(a=weights))
    local = replace(plan, scores=scores, softmax=softmax, values=values)
    return local, operands._replace(scores=of_scores, values=of_values._replace(a=None))
