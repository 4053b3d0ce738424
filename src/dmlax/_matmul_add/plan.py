"""Plans a product of 8 bits and the sum of its result and an addend."""

from dataclasses import dataclass
from typing import NamedTuple

from dmlax._add_multiply.plan import BinaryPlan
from dmlax._add_multiply.plan import Operands as SumOperands
from dmlax._core import compat
from dmlax._core.arguments import Aval
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._matmul.plan import output_partition as product_partition


class MatmulAdd(NamedTuple):
    """The operands; the term of the sum that is the product is absent."""

    product: ProductOperands
    sum: SumOperands


@dataclass(frozen=True)
class MatmulAddPlan:
    """Everything static that a lowering reads."""

    product: ProductPlan
    sum: BinaryPlan
    addend_first: bool

    @property
    def input(self) -> Aval:
        """The dtype and shape of the left matrix."""
        return self.product.input

    @property
    def output(self) -> Aval:
        """The dtype and shape of the sum."""
        return self.sum.output

    @property
    def product_term(self) -> str:
        """The term of the sum that is the product, "a" or "b"."""
        return "b" if self.addend_first else "a"

    @property
    def addend_term(self) -> str:
        """The term of the sum that is the addend, "a" or "b"."""
        return "a" if self.addend_first else "b"

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.product.notes()

    def __str__(self) -> str:
        return f"{self.product}; {self.sum}"


def output_partition(plan: MatmulAddPlan, operands: MatmulAdd) -> compat.Partition:
    """The sum is split over a mesh as the product's rows are."""
    rows, *_ = product_partition(plan.product, operands.product)
    return (rows, *(None,) * (len(plan.output.shape) - 1))
