"""Plans a product with a transposed matrix of 4-bit integers in blocks."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import Aval, aval_of
from dmlax._core.axis_names import WHOLE, AxisNames, numbered, whole
from dmlax._core.plans import BasePlan


class Blocks(NamedTuple):
    """The operands.

    Attributes:
      a: float32 rows.
      held: bytes of two integers each, a row for every column of the product.
      scale: float32 or narrower, of every block of every column.
      zero_point: of the same shape, or (1, 1).
    """

    a: Array
    held: Array
    scale: Array
    zero_point: Array


@dataclass(frozen=True)
class BlockPlan(BasePlan):
    """All that is static of a product.

    Attributes:
      input: the rows.
      columns: of the product.
      block_size: the integers that share a scale.
    """

    input: Aval
    columns: int
    block_size: int

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the product."""
        return Aval(self.input.dtype, (*self.input.shape[:-1], self.columns))

    def __str__(self) -> str:
        return f"{self.input} by {self.columns} columns of 4-bit blocks of {self.block_size}"


def axis_names(plan: BlockPlan, operands: Blocks) -> AxisNames:
    """Rows and columns may be split."""
    rows, columns = numbered(operands.a.ndim - 1), f"column {WHOLE}"
    points = whole(operands.zero_point) if operands.zero_point.size == 1 else columns
    names = (f"{rows} {WHOLE}".strip(), columns, columns, points)
    return AxisNames(names, f"{rows} column".strip())


def local_plan(plan: BlockPlan, operands: Blocks) -> tuple[BlockPlan, Blocks]:
    """Plans for a part of the rows and columns."""
    columns = operands.held.shape[0]
    return replace(plan, input=aval_of(operands.a), columns=columns), operands


def plan(operands: Blocks, block_size: int) -> tuple[BlockPlan, Blocks]:
    """Plans a product, and returns its operands."""
    return BlockPlan(aval_of(operands.a), operands.held.shape[0], block_size), operands
