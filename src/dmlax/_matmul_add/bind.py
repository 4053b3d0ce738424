"""Plans a product of 8 bits and the sum of its result and an addend as one call."""

from dmlax._add_multiply.plan import BinaryPlan
from dmlax._add_multiply.plan import Operands as SumOperands
from dmlax._core.arguments import ABSENT
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._matmul_add.plan import MatmulAdd, MatmulAddPlan


def plan(
    product: tuple[ProductPlan, ProductOperands],
    sum: tuple[BinaryPlan, SumOperands],
    addend_first: bool,
) -> tuple[MatmulAddPlan, MatmulAdd]:
    """Plans both as one call.

    Args:
      product: a planned product of 8 bits.
      sum: the planned sum, with an array in the place of the product, of as many elements.
      addend_first: True if the product is the second term.
    """
    both = MatmulAddPlan(product[0], sum[0], addend_first)
    terms = sum[1]._replace(**{both.product_term: ABSENT})
    return both, MatmulAdd(product[1], terms)
