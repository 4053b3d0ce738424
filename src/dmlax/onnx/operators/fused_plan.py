"""The plan of a product and of what its kernel does to the outputs before it stores them."""

from dataclasses import dataclass

from dmlax._core.arguments import Aval
from dmlax._matmul.plan import ProductPlan


@dataclass(frozen=True)
class FusedPlan:
    """All that is static of the product; what follows it adds its own plan."""

    product: ProductPlan

    @property
    def input(self) -> Aval:
        """The dtype and the shape of the left matrix."""
        return self.product.input

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.product.notes()
