"""Checks a matrix product and plans it from shapes and dtypes alone."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.accumulators import INT32_MAX, largest_difference, overflow_notes
from dmlax._core.arguments import (
    ABSENT,
    Aval,
    OptionalT,
    Rules,
    T,
    are_same,
    broadcast_shapes,
    broadcasts_to,
    expand_rank,
    is_static,
    renew_avals,
)
from dmlax._core.axis_names import WHOLE, AxisNames, broadcast, numbered, whole
from dmlax._core.panels import Packing, PanelShape
from dmlax._core.partitions import partition_by_names
from dmlax._core.prepared_weights import check_arrays
from dmlax._core.requantize import Arithmetic, Requantization

INTEGER_RULES = Rules("matrix_multiply_integer")
QUANTIZED_RULES = Rules("quantized_linear_matrix_multiply")
TO_FLOAT_RULES = Rules("matrix_multiply_integer_to_float")
_EIGHT_BITS = (jnp.int8, jnp.uint8)


class MatrixShape(NamedTuple):
    """A right matrix's dtype and shape: all that is static of a prepared one."""

    matrix: Aval  # (..., K, N), or (K,)
    packing: Packing = "rows"  # the layout of a prepared matrix's bytes

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes before K and N."""
        return self.matrix.shape[:-2]

    @property
    def depth(self) -> int:
        """K, the products that one output sums."""
        return self.matrix.shape[-2 if len(self.matrix.shape) > 1 else 0]

    @property
    def columns(self) -> int:
        """N; 1 of a vector."""
        return self.matrix.shape[-1] if len(self.matrix.shape) > 1 else 1

    @property
    def panels(self) -> PanelShape:
        """The packed columns as panels."""
        return PanelShape(1, self.columns, self.depth)

    @property
    def packed(self) -> tuple[int, ...]:
        """The sizes of a prepared one's bytes."""
        sizes = self.panels.packed if self.packing == "panels" else (self.columns, self.depth)
        return *self.batch, *sizes

    def __str__(self) -> str:
        return str(self.matrix)


class Product(NamedTuple, Generic[T, OptionalT]):
    """The operands of all matrix products; absent ones are None."""

    a: T
    b: T
    a_zero_point: OptionalT = ABSENT
    b_zero_point: OptionalT = ABSENT
    bias: OptionalT = ABSENT
    a_scale: OptionalT = ABSENT
    b_scale: OptionalT = ABSENT
    output_scale: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT
    threshold: OptionalT = ABSENT  # made of known scales for the lowerings to XLA


Operands = Product[Any, Any]  # `b` is an array or `Prepared`; parameters are as the plan says
Avals = Product[Aval, Aval | None]


_OF_OUTPUT = ("bias", "a_scale", "b_scale", "output_scale", "output_zero_point")


def without_scales(operands: Any) -> Any:
    """The operands of the sums."""
    return operands._replace(**dict.fromkeys((*_OF_OUTPUT, "threshold")))


@dataclass(frozen=True)
class ProductPlan:
    """Everything static that a lowering reads."""

    operands: Avals
    matrix: MatrixShape
    prepared: bool
    arithmetic: Arithmetic
    batch: tuple[int, ...]  # the batch axes of the output
    output: Aval
    requantization: Requantization | None = None
    steep: bool = False  # the scales are known, and a sum that no int32 holds saturates

    @property
    def input(self) -> Aval:
        """The left matrix's dtype and shape."""
        return self.operands.a

    @property
    def rows(self) -> int:
        """M; 1 of a vector."""
        shape = self.input.shape
        return shape[-2] if len(shape) > 1 else 1

    @property
    def depth(self) -> int:
        """K, the products that one output sums."""
        return self.matrix.depth

    @property
    def columns(self) -> int:
        """N; 1 of a vector."""
        return self.matrix.columns

    @property
    def is_static(self) -> bool:
        """False if a size is a symbolic dimension of `jax.export`."""
        avals = (aval for aval in self.operands if aval is not None)
        return self.matrix.matrix.is_static and all(aval.is_static for aval in avals)

    @property
    def quantized(self) -> bool:
        """True if the output is quantized."""
        return self.operands.output_scale is not None

    @property
    def scaled(self) -> bool:
        """True if the output is a float."""
        return self.operands.a_scale is not None and not self.quantized

    @property
    def accumulator_bound(self) -> int:
        """Largest magnitude that an accumulator can have, before the bias."""
        operands, right = self.operands, self.matrix.matrix.dtype
        a = largest_difference(self.input.dtype, operands.a_zero_point is not None)
        b = largest_difference(right, operands.b_zero_point is not None)
        return self.depth * a * b

    @property
    def bias_limit(self) -> int | None:
        """The bias of a sum that saturates, and fits int32: so a larger one does too.

        None where the scales do not say so.
        """
        if not self.steep or self.accumulator_bound > INT32_MAX // 4:
            return None
        return INT32_MAX - self.accumulator_bound

    @property
    def sums(self) -> "ProductPlan | None":
        """The plan of the int32 sums that a requantization takes; None without one."""
        if self.requantization is None:
            return None
        output = self.output._replace(dtype=np.dtype(np.int32))
        operands = without_scales(self.operands)
        return replace(self, operands=operands, output=output, requantization=None, steep=False)

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        if not is_static((self.depth,)):
            return []
        has_bias = self.operands.bias is not None
        return overflow_notes(self.accumulator_bound, has_bias, self.requantization)

    def as_output(self, bias: Array) -> Array:
        """Reshapes a bias so that it broadcasts to (..., M, N)."""
        bias = expand_rank(bias, len(self.output.shape), scalars=True)
        if len(self.matrix.matrix.shape) == 1:
            bias = jnp.expand_dims(bias, -1)
        return jnp.expand_dims(bias, -2) if len(self.input.shape) == 1 else bias

    def __str__(self) -> str:
        prepared = " prepared" if self.prepared else ""
        return f"{self.input}, {self.matrix}{prepared} -> {self.output}"


@dataclass(frozen=True)
class FusedPlan:
    """The base of plans that begin with a product; a subclass is a frozen dataclass."""

    product: ProductPlan

    @property
    def input(self) -> Aval:
        """The dtype and shape of the left matrix."""
        return self.product.input

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return self.product.notes()


@functools.lru_cache(maxsize=4096)
def matrix_shape(rules: Rules, matrix: Aval) -> MatrixShape:
    """Checks a right matrix by itself."""
    _check_matrix(rules, "BTensor", matrix)
    return MatrixShape(matrix)


def _check_matrix(rules: Rules, field: str, matrix: Aval) -> None:
    rules.expect_dtype(field, matrix, *_EIGHT_BITS)
    rank = f"is {matrix}, expected rank 1 or more"
    rules.expect(len(matrix.shape) >= 1, "dimension_count", field, rank)


def check_b_zero_point(rules: Rules, shape: MatrixShape, zero_point: Aval | None) -> None:
    """Checks that it is one value or one per column, of the matrix's dtype."""
    if zero_point is not None:
        rules.expect_dtype("BZeroPointTensor", zero_point, shape.matrix.dtype)
        _check_per_column(rules, "BZeroPointTensor", zero_point, shape)


def check_prepared(rules: Rules, shape: MatrixShape, arrays: Sequence[Aval | None]) -> None:
    """Checks a prepared matrix's bytes, sums and zero point, a tree anyone may change."""
    *packed_and_sums, zero_point = arrays
    packed = Aval(np.dtype(np.int8), shape.packed)
    sums = Aval(np.dtype(np.int32), (*shape.batch, shape.columns))
    expected = (packed,), (sums,)
    check_arrays(rules, "BTensor", "matrices", shape, packed_and_sums, expected)
    check_b_zero_point(rules, shape, zero_point)


@functools.lru_cache(maxsize=4096)
def product_plan(
    rules: Rules,
    operands: Avals,
    matrix: MatrixShape,
    prepared: tuple[Aval | None, ...] | None,
    output_dtype: np.dtype,
    arithmetic: Arithmetic,
    requantization: Requantization | None = None,
) -> ProductPlan:
    """Checks every tensor against every other."""
    if prepared is not None:
        check_prepared(rules, matrix, prepared)
        operands = operands._replace(b_zero_point=prepared[-1])
    _check_matrix(rules, "ATensor", operands.a)
    a, b = operands.a, matrix.matrix
    depth = f"is {b}, expected {a.shape[-1]} rows, the columns of ATensor {a}"
    rules.expect(are_same(a.shape[-1], matrix.depth), "sizes", "BTensor", depth)
    batch = _broadcast_batch(rules, a, matrix)
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    output = Aval(np.dtype(output_dtype), (*batch, *rows, *columns))
    _check_parameters(rules, operands, matrix, (*batch, *(rows or (1,)), 1), output)
    modes = arithmetic, batch, output, requantization
    return ProductPlan(operands, matrix, prepared is not None, *modes)


def _broadcast_batch(rules: Rules, a: Aval, matrix: MatrixShape) -> tuple[int, ...]:
    batch = broadcast_shapes(a.shape[:-2], matrix.batch)
    if batch is None:
        message = f"is {matrix}, expected batch axes that broadcast with those of ATensor {a}"
        rules.fail("sizes", "BTensor", message)
    return batch


def _check_parameters(
    rules: Rules, operands: Avals, matrix: MatrixShape, rows: tuple[int, ...], output: Aval
) -> None:
    """Checks the dtypes and shapes of scales, zero points and the bias."""
    check_b_zero_point(rules, matrix, operands.b_zero_point)
    a = operands.a
    a_rows = (*a.shape[:-1], 1) if len(a.shape) > 1 else (1, 1)
    dtypes = {"a_zero_point": a.dtype, "output_zero_point": output.dtype}
    dtypes |= dict.fromkeys(("a_scale", "b_scale", "output_scale"), np.dtype(np.float32))
    for name, field, parameter in rules.expect_dtypes(operands, dtypes):
        if name == "b_scale":
            _check_per_column(rules, field, parameter, matrix)
        else:
            _check_per_row(rules, field, parameter, a_rows if name.startswith("a_") else rows)
    if operands.bias is not None:
        _check_bias(rules, operands.bias, operands.output_scale is not None, output)


def _check_per_column(rules: Rules, field: str, parameter: Aval, matrix: MatrixShape) -> None:
    sizes = (*matrix.batch, 1, matrix.columns) if len(matrix.matrix.shape) > 1 else ()
    good = _is_single(parameter) or _broadcasts(parameter.shape, sizes)
    wanted = f"one value or one per column, the last axis of BTensor {matrix}"
    rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}")


def _check_per_row(rules: Rules, field: str, parameter: Aval, sizes: tuple[int, ...]) -> None:
    if _is_single(parameter):
        return
    wanted = f"one value or one per row, as ({sizes[-2]}, 1)"
    flat = "; x[:, None] has one per row" if len(parameter.shape) == 1 else ""
    good = not flat and _broadcasts(parameter.shape, sizes)
    rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}{flat}")


def _check_bias(rules: Rules, bias: Aval, quantized: bool, output: Aval) -> None:
    rules.expect_dtype("BiasTensor", bias, jnp.int32 if quantized else output.dtype)
    wanted = f"a shape that broadcasts to the output {output}"
    good = broadcasts_to(bias.shape, output.shape)
    rules.expect(good, "sizes", "BiasTensor", f"is {bias}, expected {wanted}")


def _is_single(parameter: Aval) -> bool:
    return all(are_same(size, 1) for size in parameter.shape)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if a parameter broadcasts; further axes of size 1 may come first."""
    more = max(0, len(shape) - len(wanted))
    return all(are_same(size, 1) for size in shape[:more]) and broadcasts_to(shape[more:], wanted)


def axis_names(plan: ProductPlan, operands: Operands) -> AxisNames:
    """The batch, the rows of `a` and the columns of `b` may be split; panels are split whole."""
    batch = numbered(len(plan.batch)).split()
    names, sizes = " ".join([*batch, "row", "column"]), (*plan.batch, plan.rows, plan.columns)
    of_rows, of_columns = len(plan.input.shape) > 1, len(plan.matrix.matrix.shape) > 1
    output = " ".join([*batch, *["row"] * of_rows, *["column"] * of_columns])
    parameters = operands._replace(a=None, b=None, bias=None, threshold=None)
    bias = operands.bias
    of_operands = jax.tree.map(lambda x: broadcast(x.shape, names, sizes), parameters)._replace(
        a=broadcast(operands.a.shape, names.replace("column", WHOLE), sizes) if of_rows else WHOLE,
        b=_matrix_names(plan, operands.b) if of_columns else jax.tree.map(whole, operands.b),
        bias=None if bias is None else broadcast(bias.shape, output, plan.output.shape),
        threshold=jax.tree.map(whole, operands.threshold),
    )
    panels = plan.matrix.packing == "panels"
    pieces = (("column", plan.matrix.panels.pieces),) if panels else ()
    return AxisNames(of_operands, output, pieces)


output_partition = partition_by_names(axis_names)


def _matrix_names(plan: ProductPlan, b: Any) -> Any:
    """The names of the right matrix's arrays."""
    batch = broadcast(plan.matrix.batch, numbered(len(plan.batch)), plan.batch)
    if not hasattr(b, "packed"):
        return f"{batch} - column"
    sizes, names = (*plan.batch, 1, plan.columns), f"{numbered(len(plan.batch))} - column"
    of_parts = jax.tree.map(lambda x: broadcast(x.shape, names, sizes), b)
    return of_parts._replace(packed=f"{batch} column -", sums=f"{batch} column")


def local_plan(plan: ProductPlan, operands: Operands) -> tuple[ProductPlan, Operands]:
    """Plans for a part of the batch, the rows and the columns."""
    operands = operands._replace(threshold=None)
    matrix = _local_matrix(plan.matrix, operands.b)
    a = operands.a.shape
    batch = broadcast_shapes(a[:-2], matrix.batch)
    assert batch is not None
    columns = matrix.matrix.shape[-1:] if len(matrix.matrix.shape) > 1 else ()
    output = plan.output._replace(shape=(*batch, *a[-2:-1], *columns))
    # The avals have the prepared matrix's.
    zero_point = getattr(operands.b, "zero_point", operands.b_zero_point)
    avals = renew_avals(plan.operands, operands._replace(b_zero_point=zero_point))
    return replace(plan, operands=avals, matrix=matrix, batch=batch, output=output), operands


def _local_matrix(matrix: MatrixShape, b: Any) -> MatrixShape:
    if len(matrix.matrix.shape) == 1:
        return matrix
    if hasattr(b, "packed"):
        *batch, columns = b.sums.shape
        sizes = (*batch, matrix.depth, columns)
    else:
        sizes = b.shape
    return matrix._replace(matrix=matrix.matrix._replace(shape=sizes))
