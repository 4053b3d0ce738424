"""Sizes and types of a matrix product as the Hopper kernel takes it."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.requantize import Arithmetic
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.product_types import ProductTypes
from dmlax._operators.matmul.plan import ProductPlan


class Matrices(NamedTuple):
    """The operands of a kernel; absent ones are None. A parameter has one value or one a column."""

    left: Array  # (left groups, rows, depth), of whole chunks
    right: Array  # int8 (groups, columns, depth)
    sums: Array | None  # int32 (groups, columns), of the rows of right; None: of those of heads
    right_zero_point: Array | None = None
    right_scale: Array | None = None
    left_zero_point: Array | None = None
    left_scale: Array | None = None
    output_scale: Array | None = None
    output_zero_point: Array | None = None
    bias: Array | None = None  # int32 (groups, columns)
    entries: Array | None = (
        None  # uint8 (tables, 256): what replaces the bytes of equal parts of columns
    )
    addend: Array | None = None  # (rows, columns) of one group: it is added to the output
    addend_scale: Array | None = None
    addend_zero_point: Array | None = None
    sum_scale: Array | None = None
    sum_zero_point: Array | None = None


# (groups, columns), where they are not one value; a bias never is.
PER_COLUMN = ("right_zero_point", "right_scale", "bias")


@dataclass(frozen=True)
class MatmulProblem:
    """Products of as many pairs of matrices as there are groups; left may be one for all."""

    types: ProductTypes
    left_groups: int
    groups: int
    rows: int
    columns: int
    summed: int  # products of one output
    whole_rows: bool = False  # the output's rows are whole chunks
    heads: int = 1  # groups whose rows of the output lie side by side
    tables: int = 1  # byte tables; each serves an equal part of the columns
    left_rows: HeadRows | None = None  # the layout of left's rows in a matrix of all heads
    right_rows: HeadRows | None = None  # those of right, as int8

    @classmethod
    def of(cls, plan: ProductPlan, arithmetic: Arithmetic | None) -> "MatmulProblem":
        """The problem of a plan: where right is the same for all, its batch is more rows."""
        batch, right = math.prod(plan.batch), math.prod(plan.matrix.batch)
        alone = math.prod(plan.input.shape[:-2]) == 1
        output = np.dtype(np.int32) if arithmetic is None else plan.output.dtype
        dtypes = plan.input.dtype, plan.matrix.matrix.dtype, output
        return cls(
            ProductTypes(*dtypes, arithmetic, plan.bias_limit),
            left_groups=1 if right == 1 or alone else batch,
            groups=1 if right == 1 else batch,
            rows=plan.rows * (batch if right == 1 else 1),
            columns=plan.columns,
            summed=plan.depth,
        )

    @property
    def depth(self) -> int:
        """Bytes of a row, in whole chunks."""
        return -(-self.summed // CHUNK) * CHUNK

    @property
    def stored(self) -> int:
        """Elements of a row of the output; any follow the columns."""
        return -(-self.columns // CHUNK) * CHUNK if self.whole_rows else self.columns

    @property
    def output_sizes(self) -> tuple[int, ...]:
        """The sizes of the output, of all groups."""
        if self.heads == 1:
            return self.groups, self.rows, self.stored
        return self.groups // self.heads, self.rows, self.heads, self.stored

    @property
    def left_bytes(self) -> int:
        """Bytes of all rows of left."""
        if self.left_rows is not None:
            return self.left_groups // self.left_rows.heads * self.left_rows.image
        return self.left_groups * self.rows * self.depth

    @property
    def right_bytes(self) -> int:
        """Bytes of all rows of right."""
        return self.groups * self.columns * self.depth

    def sums_rows(self, operands: Matrices) -> bool:
        """True if right has a zero point, whose term needs the sums of the rows of left."""
        return operands.right_zero_point is not None or self.types.right == jnp.uint8
