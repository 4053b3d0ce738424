"""Checks a matrix product and plans it from shapes and dtypes alone."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
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
)
from dmlax._core.panels import Packing, PanelShape
from dmlax._core.prepared_weights import Prepared, check_arrays
from dmlax._core.requantize import Arithmetic

INTEGER_RULES = Rules("matrix_multiply_integer")
QUANTIZED_RULES = Rules("quantized_linear_matrix_multiply")
TO_FLOAT_RULES = Rules("matrix_multiply_integer_to_float")
_EIGHT_BITS = (jnp.int8, jnp.uint8)
_INT32_MAX = 2**31 - 1


class MatrixShape(NamedTuple):
    """A right matrix's dtype and shape: all that is static of a prepared one."""

    matrix: Aval  # (..., K, N), or (K,)
    packing: Packing = "rows"  # of a prepared one's bytes

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
    threshold: OptionalT = ABSENT  # of known scales: for the lowerings to XLA


Operands = Product[Any, Any]  # `b` is an array or `Prepared`; parameters are as the plan says
Avals = Product[Aval, Aval | None]

FIELDS = Product(
    a="ATensor",
    b="BTensor",
    a_zero_point="AZeroPointTensor",
    b_zero_point="BZeroPointTensor",
    bias="BiasTensor",
    a_scale="AScaleTensor",
    b_scale="BScaleTensor",
    output_scale="OutputScaleTensor",
    output_zero_point="OutputZeroPointTensor",
)


@dataclass(frozen=True)
class ProductPlan:
    """Everything static that a lowering reads."""

    operands: Avals
    matrix: MatrixShape
    prepared: bool
    arithmetic: Arithmetic
    batch: tuple[int, ...]  # of the output
    output: Aval
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
        a = _reach(self.input.dtype, self.operands.a_zero_point is not None)
        b = _reach(self.matrix.matrix.dtype, self.operands.b_zero_point is not None)
        return self.depth * a * b

    @property
    def bias_limit(self) -> int | None:
        """The bias of a sum that saturates, and fits int32: so a larger one does too.

        None where the scales do not say so.
        """
        if not self.steep or self.accumulator_bound > _INT32_MAX // 4:
            return None
        return _INT32_MAX - self.accumulator_bound

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        if not is_static((self.depth,)):
            return []
        bound = f"{self.accumulator_bound:,}"
        if self.accumulator_bound > _INT32_MAX:
            return [f"int32 accumulators can overflow: they may reach {bound}, and wrap"]
        bias = ", the bias apart" if self.operands.bias is not None else ""
        return [f"int32 accumulators cannot overflow: at most {bound}{bias}"]

    def as_output(self, bias: Array) -> Array:
        """Reshapes a bias so that it broadcasts to (..., M, N)."""
        bias = expand_rank(bias, len(self.output.shape), scalars=True)
        if len(self.matrix.matrix.shape) == 1:
            bias = jnp.expand_dims(bias, -1)
        return jnp.expand_dims(bias, -2) if len(self.input.shape) == 1 else bias

    def __str__(self) -> str:
        prepared = " prepared" if self.prepared else ""
        return f"{self.input}, {self.matrix}{prepared} -> {self.output}"


def _reach(dtype: np.dtype, zero_point: bool) -> int:
    """The largest |x - zero point|."""
    return 255 if zero_point or dtype == jnp.uint8 else 128


@functools.lru_cache(maxsize=4096)
def matrix_shape(rules: Rules, matrix: Aval) -> MatrixShape:
    """Checks a right matrix by itself."""
    _check_matrix(rules, FIELDS.b, matrix)
    return MatrixShape(matrix)


def _check_matrix(rules: Rules, field: str, matrix: Aval) -> None:
    rules.expect_dtype(field, matrix, *_EIGHT_BITS)
    rank = f"is {matrix}, expected rank 1 or more"
    rules.expect(len(matrix.shape) >= 1, "dimension_count", field, rank)


def check_b_zero_point(rules: Rules, shape: MatrixShape, zero_point: Aval | None) -> None:
    """Checks that it is one value or one per column, of the matrix's dtype."""
    if zero_point is not None:
        rules.expect_dtype(FIELDS.b_zero_point, zero_point, shape.matrix.dtype)
        _check_per_column(rules, FIELDS.b_zero_point, zero_point, shape)


def check_prepared(rules: Rules, shape: MatrixShape, arrays: Sequence[Aval | None]) -> None:
    """Checks a prepared matrix's bytes, sums and zero point, a tree anyone may change."""
    *packed_and_sums, zero_point = arrays
    packed = Aval(np.dtype(np.int8), shape.packed)
    sums = Aval(np.dtype(np.int32), (*shape.batch, shape.columns))
    expected = (packed,), (sums,)
    check_arrays(rules, FIELDS.b, "matrices", shape, packed_and_sums, expected)
    check_b_zero_point(rules, shape, zero_point)


@functools.lru_cache(maxsize=4096)
def product_plan(
    rules: Rules,
    operands: Avals,
    matrix: MatrixShape,
    prepared: tuple[Aval | None, ...] | None,
    output_dtype: np.dtype,
    arithmetic: Arithmetic,
) -> ProductPlan:
    """Checks every tensor against every other."""
    if prepared is not None:
        check_prepared(rules, matrix, prepared)
        operands = operands._replace(b_zero_point=prepared[-1])
    _check_matrix(rules, FIELDS.a, operands.a)
    a, b = operands.a, matrix.matrix
    depth = f"is {b}, expected {a.shape[-1]} rows, the columns of ATensor {a}"
    rules.expect(are_same(a.shape[-1], matrix.depth), "sizes", FIELDS.b, depth)
    batch = _broadcast_batch(rules, a, matrix)
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    output = Aval(np.dtype(output_dtype), (*batch, *rows, *columns))
    _check_parameters(rules, operands, matrix, (*batch, *(rows or (1,)), 1), output)
    return ProductPlan(operands, matrix, prepared is not None, arithmetic, batch, output)


def _broadcast_batch(rules: Rules, a: Aval, matrix: MatrixShape) -> tuple[int, ...]:
    batch = broadcast_shapes(a.shape[:-2], matrix.batch)
    if batch is None:
        message = f"is {matrix}, expected batch axes that broadcast with those of ATensor {a}"
        rules.fail("sizes", FIELDS.b, message)
    return batch


def _check_parameters(
    rules: Rules,
    operands: Avals,
    matrix: MatrixShape,
    rows: tuple[int, ...],
    output: Aval,
) -> None:
    """Checks the dtypes and shapes of scales, zero points and the bias."""
    check_b_zero_point(rules, matrix, operands.b_zero_point)
    a = operands.a
    a_rows = (*a.shape[:-1], 1) if len(a.shape) > 1 else (1, 1)
    for name, dtype, sizes in (
        ("a_zero_point", a.dtype, a_rows),
        ("output_zero_point", output.dtype, rows),
        ("a_scale", jnp.float32, a_rows),
        ("b_scale", jnp.float32, None),
        ("output_scale", jnp.float32, rows),
    ):
        field, parameter = getattr(FIELDS, name), getattr(operands, name)
        if parameter is None:
            continue
        rules.expect_dtype(field, parameter, dtype)
        if sizes is None:
            _check_per_column(rules, field, parameter, matrix)
        else:
            _check_per_row(rules, field, parameter, sizes)
    if operands.bias is not None:
        _check_bias(rules, operands.bias, operands.output_scale is not None, output)


def _check_per_column(rules: Rules, field: str, parameter: Aval, matrix: MatrixShape) -> None:
    sizes = (*matrix.batch, 1, matrix.columns) if len(matrix.matrix.shape) > 1 else ()
    good = _is_single(parameter) or _broadcasts(parameter.shape, sizes)
    wanted = f"one value or one per column of BTensor {matrix}"
    rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}")


def _check_per_row(rules: Rules, field: str, parameter: Aval, sizes: tuple[int, ...]) -> None:
    if _is_single(parameter):
        return
    wanted = f"one value or one per row, as ({sizes[-2]}, 1)"
    flat = "; x[:, None] has one per row" if len(parameter.shape) == 1 else ""
    good = not flat and _broadcasts(parameter.shape, sizes)
    rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}{flat}")


def _check_bias(rules: Rules, bias: Aval, quantized: bool, output: Aval) -> None:
    rules.expect_dtype(FIELDS.bias, bias, jnp.int32 if quantized else output.dtype)
    wanted = f"a shape that broadcasts to the output {output}"
    good = broadcasts_to(bias.shape, output.shape)
    rules.expect(good, "sizes", FIELDS.bias, f"is {bias}, expected {wanted}")


def _is_single(parameter: Aval) -> bool:
    return all(are_same(size, 1) for size in parameter.shape)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if a parameter broadcasts; further axes of size 1 may come first."""
    more = max(0, len(shape) - len(wanted))
    return all(are_same(size, 1) for size in shape[:more]) and broadcasts_to(shape[more:], wanted)


def output_partition(plan: ProductPlan, operands: Operands) -> compat.Partition:
    """The output is split over a mesh as the rows of `a` and the columns of `b` are."""
    axes: list[Any] = [None] * len(plan.output.shape)
    a = compat.partition(operands.a)
    if len(plan.input.shape) > 1:
        lasts = 1 if len(plan.matrix.matrix.shape) > 1 else 0
        for back, axis in enumerate(reversed(a[:-1])):
            at = len(axes) - 1 - lasts - back
            if are_same(plan.output.shape[at], plan.input.shape[-2 - back]):
                axes[at] = axis
    if len(plan.matrix.matrix.shape) > 1:
        columns = _partition_of_columns(plan, operands.b)
        taken = {name for axis in axes for name in compat.mesh_axes(axis)}
        if not taken & set(compat.mesh_axes(columns)):
            axes[-1] = columns
    return tuple(axes)


def _partition_of_columns(plan: ProductPlan, b: Array | Prepared) -> Any:
    """The mesh axes that split N."""
    if isinstance(b, Prepared):
        return compat.partition(b.packed)[-2] if plan.matrix.packing == "rows" else None
    return compat.partition(b)[-1]
