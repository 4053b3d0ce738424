"""Plans a product with a transposed matrix of small integers in blocks."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import Aval, aval_of
from dmlax._core.axis_names import WHOLE, AxisNames, numbered, whole
from dmlax._core.plans import BasePlan
from dmlax._core.requantize import Arithmetic

WIDEST_BLOCK = 256
"""The most elements of a row that share a step."""


class Blocks(NamedTuple):
    """The operands.

    Attributes:
      a: float32 rows.
      held: bytes of integers, the first in the low bits; a row for every column of the product.
      scale: float32 or narrower, of every block of every column.
      zero_point: of the same shape, or (1, 1). With levels, uint8: packed as `held`, or
        (0, 0) for the middle.
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
      bits: of an integer.
      levels: the arithmetic, if rows are rounded to 8 bits in blocks; None for floats.
    """

    input: Aval
    columns: int
    block_size: int
    bits: int = 4
    levels: Arithmetic | None = None

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the product."""
        return Aval(self.input.dtype, (*self.input.shape[:-1], self.columns))

    def __str__(self) -> str:
        text = f"{self.input} by {self.columns} columns of {self.bits}-bit blocks"
        return f"{text} of {self.block_size}{' at level 4' if self.levels else ''}"


def axis_names(plan: BlockPlan, operands: Blocks) -> AxisNames:
    """Rows and columns may be split."""
    rows, columns = numbered(operands.a.ndim - 1), f"column {WHOLE}"
    points = whole(operands.zero_point) if operands.zero_point.size <= 1 else columns
    names = (f"{rows} {WHOLE}".strip(), columns, columns, points)
    return AxisNames(names, f"{rows} column".strip())


def local_plan(plan: BlockPlan, operands: Blocks) -> tuple[BlockPlan, Blocks]:
    """Plans for a part of the rows and columns."""
    columns = operands.held.shape[0]
    return replace(plan, input=aval_of(operands.a), columns=columns), operands


def plan(
    operands: Blocks, block_size: int, bits: int = 4, levels: Arithmetic | None = None
) -> tuple[BlockPlan, Blocks]:
    """Plans a product, and returns its operands."""
    columns = operands.held.shape[0]
    return BlockPlan(aval_of(operands.a), columns, block_size, bits, levels), operands
