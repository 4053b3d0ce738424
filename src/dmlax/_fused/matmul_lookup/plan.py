"""Plans a product of 8 bits and a lookup of its result."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
from jax import Array

from dmlax._core.arguments import Aval, aval_of
from dmlax._core.axis_names import AxisNames, whole
from dmlax._core.partitions import partition_by_names
from dmlax._operators.byte_lookup.plan import LookupPlan, lookup_plan
from dmlax._operators.matmul import plan as product
from dmlax._operators.matmul.plan import FusedPlan, ProductPlan
from dmlax._operators.matmul.plan import Operands as ProductOperands


class MatmulLookup(NamedTuple):
    """The operands."""

    product: ProductOperands
    table: Array


@dataclass(frozen=True)
class MatmulLookupPlan(FusedPlan):
    """Everything static that a lowering reads."""

    lookup: LookupPlan

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        return self.lookup.output

    def __str__(self) -> str:
        return f"{self.product}; {self.lookup}"


def plan(
    product: tuple[ProductPlan, ProductOperands], table: Array
) -> tuple[MatmulLookupPlan, MatmulLookup]:
    """Plans both as one call, of a planned product and a table of 256 bytes."""
    lookup = lookup_plan(product[0].output, aval_of(table))
    return MatmulLookupPlan(product[0], lookup), MatmulLookup(product[1], table)


def axis_names(plan: MatmulLookupPlan, operands: MatmulLookup) -> AxisNames:
    """The axes of the product may be split."""
    names = product.axis_names(plan.product, operands.product)
    table = jax.tree.map(whole, operands)._replace(product=names.operands)
    return names._replace(operands=table)


output_partition = partition_by_names(axis_names)


def local_plan(
    plan: MatmulLookupPlan, operands: MatmulLookup
) -> tuple[MatmulLookupPlan, MatmulLookup]:
    """Plans for a part of the product."""
    local, parts = product.local_plan(plan.product, operands.product)
    lookup = lookup_plan(local.output, aval_of(operands.table))
    return MatmulLookupPlan(local, lookup), operands._replace(product=parts)
