"""Plans a product of 8 bits with an epilogue: a sum with an addend, or a lookup."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
from jax import Array

from dmlax._core import splitting
from dmlax._core.arguments import ABSENT, Aval, aval_of, avals_of
from dmlax._core.axis_names import WHOLE, AxisNames, broadcast, rename, whole
from dmlax._core.partitions import partition_by_names
from dmlax._operators.add_multiply.plan import Binary, BinaryPlan
from dmlax._operators.add_multiply.plan import Operands as SumOperands
from dmlax._operators.byte_lookup.plan import LookupPlan, lookup_plan
from dmlax._operators.matmul import plan as product
from dmlax._operators.matmul.plan import FusedPlan, ProductPlan
from dmlax._operators.matmul.plan import Operands as ProductOperands
from dmlax._operators.matmul.plan import output_partition as product_partition


class MatmulAdd(NamedTuple):
    """The operands of a product and a sum; the term that is the product is absent."""

    product: ProductOperands
    sum: SumOperands


@dataclass(frozen=True)
class MatmulAddPlan(FusedPlan):
    """Everything static that a lowering of a product and a sum reads."""

    sum: BinaryPlan
    addend_first: bool

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

    def __str__(self) -> str:
        return f"{self.product}; {self.sum}"


def partition_of_sum(plan: MatmulAddPlan, operands: MatmulAdd) -> splitting.Partition:
    """The sum is split over a mesh as the product's rows are."""
    rows, *_ = product_partition(plan.product, operands.product)
    return (rows, *(None,) * (len(plan.output.shape) - 1))


def plan_sum(
    product: tuple[ProductPlan, ProductOperands],
    sum: tuple[BinaryPlan, SumOperands],
    addend_first: bool,
) -> tuple[MatmulAddPlan, MatmulAdd]:
    """Plans a product and a sum as one call.

    Args:
      product: a planned product of 8 bits.
      sum: the planned sum, with an array in the place of the product, of as many elements.
      addend_first: True if the product is the second term.
    """
    both = MatmulAddPlan(product[0], sum[0], addend_first)
    terms = sum[1]._replace(**{both.product_term: ABSENT})
    return both, MatmulAdd(product[1], terms)


def axis_names_of_sum(plan: MatmulAddPlan, operands: MatmulAdd) -> AxisNames | None:
    """The first axis of the sum may be split, and the columns."""
    rank = len(plan.output.shape)
    if len(plan.product.output.shape) != 2 or rank < 2:
        return None
    names = " ".join(["image", *[WHOLE] * (rank - 2), "column"])
    addend = getattr(operands.sum, plan.addend_term)
    of_addend = {plan.addend_term: broadcast(addend.shape, names, plan.output.shape)}
    of_sum = jax.tree.map(whole, operands.sum)._replace(**of_addend)
    of_product = product.axis_names(plan.product, operands.product)
    renamed = rename(of_product.operands, row=f"image.{WHOLE}" if rank > 2 else "image")
    return AxisNames(MatmulAdd(renamed, of_sum), names, of_product.pieces)


def local_plan_of_sum(plan: MatmulAddPlan, operands: MatmulAdd) -> tuple[MatmulAddPlan, MatmulAdd]:
    """Plans for a part of the images and the columns."""
    local, parts = product.local_plan(plan.product, operands.product)
    (rows, columns), others = local.output.shape, plan.output.shape[1:-1]
    shape = (rows // math.prod(others), *others, columns)
    term = getattr(plan.sum.operands, plan.product_term)._replace(shape=shape)
    given = Binary(*avals_of(operands.sum))
    avals = given._replace(**{plan.product_term: term})
    sum = replace(plan.sum, operands=avals, output=plan.output._replace(shape=shape))
    return replace(plan, product=local, sum=sum), operands._replace(product=parts)


class MatmulLookup(NamedTuple):
    """The operands of a product and a lookup."""

    product: ProductOperands
    table: Array


@dataclass(frozen=True)
class MatmulLookupPlan(FusedPlan):
    """Everything static that a lowering of a product and a lookup reads."""

    lookup: LookupPlan

    @property
    def output(self) -> Aval:
        """The dtype and shape of the output."""
        return self.lookup.output

    def __str__(self) -> str:
        return f"{self.product}; {self.lookup}"


def plan_lookup(
    product: tuple[ProductPlan, ProductOperands], table: Array
) -> tuple[MatmulLookupPlan, MatmulLookup]:
    """Plans a planned product and a table of 256 bytes as one call."""
    lookup = lookup_plan(product[0].output, aval_of(table))
    return MatmulLookupPlan(product[0], lookup), MatmulLookup(product[1], table)


def axis_names_of_lookup(plan: MatmulLookupPlan, operands: MatmulLookup) -> AxisNames:
    """The axes of the product may be split."""
    names = product.axis_names(plan.product, operands.product)
    return names._replace(operands=jax.tree.map(whole, operands)._replace(product=names.operands))


partition_of_lookup = partition_by_names(axis_names_of_lookup)


def local_plan_of_lookup(
    plan: MatmulLookupPlan, operands: MatmulLookup
) -> tuple[MatmulLookupPlan, MatmulLookup]:
    """Plans for a part of the product."""
    return plan_lookup(product.local_plan(plan.product, operands.product), operands.table)
