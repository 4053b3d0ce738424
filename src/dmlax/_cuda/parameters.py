"""Parameters of a matrix product in global memory, and the constants that columns get of them."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dmlax._core.byte_packing import rebase_of
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import ir
from dmlax._cuda.column_table import Column
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.quantized_sum import Term, lowest_of
from dmlax._cuda.requantize import Requantizer, Scales, compute_multiplier, make_finite
from dmlax._cuda.sum_types import SumTypes


@dataclass(frozen=True)
class ParameterTypes:
    """All that is static of the parameters."""

    left: np.dtype
    right: np.dtype  # before it was re-based to int8
    output: np.dtype
    arithmetic: Arithmetic | None  # of a quantized output; None: int32 sums
    per_column: frozenset[str]  # the names of those of one value a column; others have one value
    rebases_output: bool = False  # to uint8, as a sum takes it
    bias_limit: int | None = None  # to which a bias is clamped; None: sums with it wrap

    @property
    def requantized(self) -> np.dtype:
        """The dtype that accumulators are requantized to."""
        return np.dtype(np.uint8) if self.rebases_output else self.output


class Parameters:
    """Zero points, scales, bias and the sums of right's rows; absent ones have no pointer.

    Their names are left_zero_point, right_zero_point, bias, left_scale, right_scale, output_scale,
    output_zero_point and sums.
    """

    def __init__(
        self,
        types: ParameterTypes,
        memory: dict[str, Pointer],
        sum_of: Callable[[Value], Value] | None = None,
    ) -> None:
        """Takes what sums a row of right, by its column of all groups, where no `sums` do."""
        self._types, self._memory, self._sum_of = types, memory, sum_of
        self.left_zero_point = self._zero_point("left_zero_point", types.left)
        self._output_zero_point = self._zero_point("output_zero_point", types.output)
        if types.rebases_output:
            self._output_zero_point = self._output_zero_point - lowest_of(types.output)

    def left_zero_points(self) -> Value:
        """A word of four zero points of left."""
        return (self.left_zero_point & 0xFF) * 0x01010101

    def requantizer(self) -> Requantizer | None:
        """The requantizer of all columns; None for int32 outputs."""
        types = self._types
        if types.arithmetic is None:
            return None
        return Requantizer.of(types.requantized, types.arithmetic, self._output_zero_point)

    def column(self, column: Value, summed: int) -> Column:
        """A column's constants; `summed` bytes are in the sum of each of left's rows."""
        return self.load_column(column)(summed)

    def load_column(self, column: Value) -> Callable[[int], Column]:
        """Begins to load a column's parameters; gives what makes its constants of them."""
        types, memory = self._types, self._memory
        zero_point = self._zero_point("right_zero_point", types.right, column)
        sum = None if self._sum_of is not None else memory["sums"].load(column.extend() * 4)
        bias = memory["bias"].load(column.extend() * 4) if "bias" in memory else None
        scales = [memory[name].load(self._index(name, column) * 4) for name in self._scales]

        def make(summed: int) -> Column:
            row_sum = self._sum_of(column) if sum is None else sum
            offset, rebased = self._offset(zero_point, row_sum, bias, summed)
            if types.arithmetic is None:
                return Column(offset, rebased, *[constant(0)] * 5)
            return self._column(offset, rebased, Scales(*scales, self._output_zero_point))

        return make

    @property
    def _scales(self) -> tuple[str, ...]:
        return () if self._types.arithmetic is None else ("left_scale", "right_scale", "output_scale")

    def _offset(
        self, zero_point: Value, sum: Value, bias: Value | None, summed: int
    ) -> tuple[Value, Value]:
        """What is added to a column's sums, and its zero point as it is re-based."""
        zero_point = zero_point - rebase_of(self._types.right)
        offset = self.left_zero_point * (zero_point * summed - sum)
        if bias is not None:
            limit = self._types.bias_limit
            offset = offset + (bias if limit is None else ir.clamp_signed(bias, -limit, limit))
        return offset, zero_point

    def _column(self, offset: Value, zero_point: Value, scales: Scales) -> Column:
        types = self._types
        assert types.arithmetic is not None
        multiplier = compute_multiplier(scales, types.arithmetic)
        if types.arithmetic == "float32" and types.requantized == jnp.uint8:
            multiplier = make_finite(multiplier, scales.zero_point)
        return Column(offset, zero_point, multiplier, *scales)

    def sum_terms(self, types: SumTypes) -> tuple[Term, Term, Term]:
        """The two terms of a sum, outputs and an addend, and the sum itself."""
        output, addend, total = (
            self._term("output", self._types.output),
            self._term("addend", types.addend),
            self._term("sum", types.sum),
        )
        return (addend, output, total) if types.addend_first else (output, addend, total)

    def _term(self, name: str, dtype: np.dtype) -> Term:
        lowest = lowest_of(dtype)
        zero_point = self._zero_point(f"{name}_zero_point", dtype) - lowest
        return Term(self._memory[f"{name}_scale"].load(0), zero_point)

    def _zero_point(self, name: str, dtype: np.dtype, column: Value | None = None) -> Value:
        """Loads a zero point as int32; 0 where it is absent."""
        if name not in self._memory:
            return constant(0)
        value = self._memory[name].load(self._index(name, column), 8)
        return value if dtype == jnp.uint8 else (value ^ 128) - 128

    def _index(self, name: str, column: Value | None) -> Value:
        """The index of a column's value."""
        if column is None or name not in self._types.per_column:
            return constant(0, 64)
        return column.extend()
