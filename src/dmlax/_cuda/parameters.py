"""Parameters of a matrix product in global memory, and the constants that columns get of them."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dmlax._core.byte_packing import rebase_of
from dmlax._cuda import ir
from dmlax._cuda.column_table import Column
from dmlax._cuda.ir import Memory, Value, constant
from dmlax._cuda.product_types import ProductTypes
from dmlax._cuda.quantized_sum import Term, lowest_of
from dmlax._cuda.requantize import (
    Factor,
    Ratio,
    Requantizer,
    Scales,
    compute_exact_factor,
    compute_float32_factor,
    make_finite,
)


class Parameters:
    """Zero points, scales, bias and the sums of right's rows; absent ones have no pointer.

    Their names are left_zero_point, right_zero_point, bias, left_scale, right_scale, output_scale,
    output_zero_point and sums.
    """

    def __init__(
        self,
        types: ProductTypes,
        memory: Memory,
        summed: int,
        sum_of: Callable[[Value], Value] | None = None,
    ) -> None:
        """Takes the bytes of a row of left that are summed.

        `sum_of` sums a row of right, by its column of all groups, where no `sums` do.
        """
        self.types, self._memory, self._summed, self._sum_of = types, memory, summed, sum_of
        self.left_zero_point = self._zero_point("left_zero_point", types.left)
        self._output_zero_point = self._zero_point("output_zero_point", types.output)
        if types.sum is not None:
            self._output_zero_point = self._output_zero_point - lowest_of(types.output)

    def left_zero_points(self) -> Value:
        """A word of four zero points of left."""
        return (self.left_zero_point & 0xFF) * 0x01010101

    def requantizer(self) -> Requantizer | None:
        """The requantizer of all columns; None for int32 outputs."""
        types = self.types
        if types.arithmetic is None:
            return None
        return Requantizer.of(types.requantized, types.arithmetic, self._output_zero_point)

    def load_column(self, column: Value) -> Callable[[], Column]:
        """Begins to load a column's parameters; gives what makes its constants of them."""
        zero_point = self._zero_point("right_zero_point", self.types.right, column)
        sum, bias = self._load_sum(column), self._load_bias(column)
        scales = self._load_scales(column)

        def make() -> Column:
            rebased = zero_point - rebase_of(self.types.right)
            offset = self.left_zero_point * (rebased * self._summed - sum())
            if bias is not None:
                offset = offset + self._clamp(bias)
            if scales is None:
                return Column(offset, rebased, *[constant(0)] * 5)
            factor, ratio = self._factor(scales)
            return Column(offset, rebased, *factor, *ratio)

        return make

    def _load_sum(self, column: Value) -> Callable[[], Value]:
        """Begins to load the sum of a row of right; one that is computed is so when asked for."""
        if self._sum_of is not None:
            return functools.partial(self._sum_of, column)
        sum = self._memory["sums"].load(column.extend() * 4)
        return lambda: sum

    def _load_bias(self, column: Value) -> Value | None:
        return self._memory["bias"].load(column.extend() * 4) if "bias" in self._memory else None

    def _clamp(self, bias: Value) -> Value:
        limit = self.types.bias_limit
        return bias if limit is None else ir.clamp_signed(bias, -limit, limit)

    def _load_scales(self, column: Value) -> Scales | None:
        """Begins to load a column's scales; None for int32 sums."""
        if self.types.arithmetic is None:
            return None
        left, right, output = (
            self._memory[name].load(self._index(name, column) * 4)
            for name in ("left_scale", "right_scale", "output_scale")
        )
        return Scales(left, right, output)

    def _factor(self, scales: Scales) -> tuple[Factor, Ratio]:
        if self.types.arithmetic == "exact":
            return compute_exact_factor(scales)
        factor = compute_float32_factor(scales)
        if self.types.requantized == jnp.uint8:
            finite = make_finite(factor.multiplier, self._output_zero_point)
            factor = factor._replace(multiplier=finite)
        return factor, Ratio(*[constant(0)] * 3)

    def sum_terms(self) -> tuple[Term, Term, Term]:
        """The two terms of a sum, outputs and an addend, and the sum itself."""
        types = self.types.sum
        assert types is not None
        output, addend, total = (
            self._term("output", self.types.output),
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
        """The index of a column's value; columns that share a value share the index."""
        if column is None or self._memory[name].size == 1:
            return constant(0, 64)
        return column.extend()
