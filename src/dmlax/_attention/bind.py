"""Plans two products of 8 bits and the softmax between them as one call."""

from dmlax._attention.plan import Attention, AttentionPlan
from dmlax._core.arguments import ABSENT
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._softmax.plan import Softmax, SoftmaxPlan


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
