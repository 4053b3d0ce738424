"""Checks an operator on two quantized tensors and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core.arguments import (
    ABSENT,
    Aval,
    OptionalT,
    Rules,
    T,
    aval_of,
    avals_of,
    broadcast_shapes,
)
from dmlax._core.axis_names import AxisNames, broadcast, numbered, whole
from dmlax._core.partitions import partition_by_names
from dmlax._core.plans import BasePlan
from dmlax._core.quantized_sum import SUM_REQUANTIZATIONS, SumRequantization
from dmlax._core.requantize import Arithmetic, check_modes

Kind = Literal["add", "multiply"]


class Binary(NamedTuple, Generic[T, OptionalT]):
    """The operands of both operators; absent zero points are None.

    A program that knows the parameters also has a table for GPUs: uint8, the result of every pair.
    """

    a: T
    b: T
    a_scale: T
    b_scale: T
    output_scale: T
    a_zero_point: OptionalT = ABSENT
    b_zero_point: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT
    factors: OptionalT = ABSENT  # a requantization's, of scales that the program knows
    table: OptionalT = ABSENT

    @property
    def parameters(self) -> tuple[T | OptionalT, ...]:
        """The scales, the zero points and the factors."""
        return self[2:-1]


Operands = Binary[Array, Array | None]
Avals = Binary[Aval, Aval | None]


@dataclass(frozen=True)
class BinaryPlan(BasePlan):
    """Everything static that a lowering reads."""

    kind: Kind
    operands: Avals
    arithmetic: Arithmetic
    output: Aval
    is_swapped: bool
    requantization: SumRequantization | None = None

    @property
    def input(self) -> Aval:
        """The dtype and shape of `a`."""
        return self.operands.a

    def __str__(self) -> str:
        return f"{self.operands.a}, {self.operands.b} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def binary_plan(
    rules: Rules,
    kind: Kind,
    operands: Avals,
    output_dtype: np.dtype,
    arithmetic: Arithmetic,
    requantization: SumRequantization | None = None,
) -> BinaryPlan:
    """Checks every tensor, and that `a` and `b` broadcast."""
    tensors = ("ATensor", operands.a), ("BTensor", operands.b)
    for field, aval in tensors:
        rules.expect_dtype(field, aval, jnp.int8, jnp.uint8)
    dtypes = parameter_dtypes(operands.a.dtype, operands.b.dtype, output_dtype)
    parameters = list(rules.expect_dtypes(operands, dtypes))
    for field, aval in tensors:
        rules.expect_rank(field, aval, 0)
    shape = _broadcast(rules, operands.a, operands.b)
    for _, field, aval in parameters:
        rules.expect(aval.size == 1, "sizes", field, f"is {aval}, expected one value")
    swapped = _is_swapped(operands, len(shape))
    output = Aval(output_dtype, shape)
    return BinaryPlan(kind, operands, arithmetic, output, swapped, requantization)


def _is_swapped(operands: Avals, rank: int) -> bool:
    """True where ONNX Runtime adds b and a, which matters to its float32 arithmetic.

    It does where `a` alone does not vary along the innermost axes of the output, merged as far
    as each tensor varies along all of them or along none.
    """
    a, b = ((1,) * (rank - len(aval.shape)) + aval.shape for aval in (operands.a, operands.b))
    varying = [(x != 1, y != 1) for x, y in zip(a, b, strict=True) if x != 1 or y != 1]
    return varying[-1] == (False, True) if varying else False


def parameter_dtypes(a: np.dtype, b: np.dtype, output: np.dtype) -> dict[str, np.dtype]:
    """The dtypes of all scales and zero points, for tensors of these dtypes."""
    scales = dict.fromkeys(("a_scale", "b_scale", "output_scale"), np.dtype(np.float32))
    return scales | {"a_zero_point": a, "b_zero_point": b, "output_zero_point": output}


def axis_names(plan: BinaryPlan, operands: Operands) -> AxisNames:
    """Every axis of the output may be split, and the two tensors with it."""
    shape = plan.output.shape
    names = numbered(len(shape))
    tensors = (broadcast(x.shape, names, shape) for x in (operands.a, operands.b))
    return AxisNames((*tensors, *jax.tree.map(whole, operands[2:])), names)


output_partition = partition_by_names(axis_names)


def local_plan(plan: BinaryPlan, operands: Operands) -> tuple[BinaryPlan, Operands]:
    """Plans for a part of the tensors, in the order of the whole ones."""
    avals = Binary(*avals_of(operands._replace(factors=None)))
    shape = broadcast_shapes(avals.a.shape, avals.b.shape)
    assert shape is not None
    return replace(plan, operands=avals, output=plan.output._replace(shape=shape)), operands


def _broadcast(rules: Rules, a: Aval, b: Aval) -> tuple[int, ...]:
    """The output's shape, NumPy's."""
    shape = broadcast_shapes(a.shape, b.shape)
    if shape is None:
        rules.fail("sizes", "BTensor", f"is {b}, expected a shape that broadcasts with ATensor {a}")
    return shape


def plan(
    rules: Rules,
    kind: Kind,
    a: ArrayLike,
    b: ArrayLike,
    *,
    output_dtype: DTypeLike | None = None,
    arithmetic: Arithmetic = "exact",
    requantization: SumRequantization | None = None,
    **parameters: ArrayLike | None,
) -> tuple[BinaryPlan, Operands]:
    """Plans a call, and returns its operands."""
    arguments: Binary[Any, Any] = Binary(a, b, **parameters)
    known = SUM_REQUANTIZATIONS if kind == "add" else SUM_REQUANTIZATIONS[1:]
    check_modes(rules, arithmetic, requantization, known)
    first, second = rules.to_array("ATensor", a), rules.to_array("BTensor", b)
    rules.expect_dtype("ATensor", aval_of(first), jnp.int8, jnp.uint8)
    rules.expect_dtype("BTensor", aval_of(second), jnp.int8, jnp.uint8)
    dtype = rules.choose_output_dtype(
        output_dtype, "OutputZeroPointTensor", arguments.output_zero_point, first.dtype
    )
    dtypes = parameter_dtypes(first.dtype, second.dtype, dtype)
    operands: Operands = Binary(first, second, **rules.to_parameters(arguments, dtypes))
    avals = Binary(*avals_of(operands))
    return binary_plan(rules, kind, avals, dtype, arithmetic, requantization), operands
