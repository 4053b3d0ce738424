"""Plans a product of 8 bits and a lookup of its result."""

from dataclasses import dataclass
from typing import NamedTuple

from jax import Array

from dmlax._byte_lookup.plan import LookupPlan
from dmlax._core import compat
from dmlax._core.arguments import Aval
from dmlax._matmul.plan import Operands as ProductOperands
from dmlax._matmul.plan import ProductPlan
from dmlax._matmul.plan import output_partition as product_partition


class MatmulLookup(NamedTuple):
    """The operands."""

    product: ProductOperands
    table: Array


@dataclass(frozen=True)
class MatmulLookupPlan:
    """Everything static that a lowering reads."""

    product: ProductPlan
    lookup: LookupPlan

    @property
    def input(self) -> Aval:
        """The dtype and shape of the left matrix."""
        return self.product.input

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        return self.lookup.output

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.product.notes()

    def __str__(self) -> str:
        return f"{self.product}; {self.lookup}"


def output_partition(plan: MatmulLookupPlan, operands: MatmulLookup) -> compat.Partition:
    """The output is split over a mesh as the product is."""
    return product_partition(plan.product, operands.product)
