"""Checks an operator on two quantized tensors and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import ABSENT, Aval, OptionalT, Rules, T, broadcast_shapes
from dmlax._core.requantize import Arithmetic

Kind = Literal["add", "multiply"]


class Binary(NamedTuple, Generic[T, OptionalT]):
    """The operands of both operators; absent zero points are None."""

    a: T
    b: T
    a_scale: T
    b_scale: T
    output_scale: T
    a_zero_point: OptionalT = ABSENT
    b_zero_point: OptionalT = ABSENT
    output_zero_point: OptionalT = ABSENT


Operands = Binary[Array, Array | None]
Avals = Binary[Aval, Aval | None]
FIELDS = Binary(
    a="ATensor",
    b="BTensor",
    a_scale="AScaleTensor",
    b_scale="BScaleTensor",
    output_scale="OutputScaleTensor",
    a_zero_point="AZeroPointTensor",
    b_zero_point="BZeroPointTensor",
    output_zero_point="OutputZeroPointTensor",
)


@dataclass(frozen=True)
class BinaryPlan:
    """Everything static that a lowering reads."""

    kind: Kind
    operands: Avals
    arithmetic: Arithmetic
    output: Aval

    @property
    def input(self) -> Aval:
        """The dtype and shape of `a`."""
        return self.operands.a

    @property
    def is_swapped(self) -> bool:
        """True where ONNX Runtime adds b and a, which matters to its float32 arithmetic.

        It does where `a` alone does not vary along the innermost axes of the output, merged as far
        as each tensor varies along all of them or along none.
        """
        rank = len(self.output.shape)
        a, b = (
            (1,) * (rank - len(aval.shape)) + aval.shape
            for aval in (self.operands.a, self.operands.b)
        )
        varying = [(x != 1, y != 1) for x, y in zip(a, b, strict=True) if x != 1 or y != 1]
        return varying[-1] == (False, True) if varying else False

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.operands.a}, {self.operands.b} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def binary_plan(
    rules: Rules, kind: Kind, operands: Avals, output_dtype: np.dtype, arithmetic: Arithmetic
) -> BinaryPlan:
    """Checks every tensor, and that `a` and `b` broadcast."""
    for name in ("a", "b"):
        rules.expect_dtype(getattr(FIELDS, name), getattr(operands, name), jnp.int8, jnp.uint8)
    parameters = [name for name in Binary._fields[2:] if getattr(operands, name) is not None]
    wanted = _parameter_dtypes(operands, output_dtype)
    for name in parameters:
        rules.expect_dtype(getattr(FIELDS, name), getattr(operands, name), wanted[name])
    for name in ("a", "b"):
        rules.expect_rank(getattr(FIELDS, name), getattr(operands, name), 0)
    shape = _broadcast(rules, operands.a, operands.b)
    for name in parameters:
        field, aval = getattr(FIELDS, name), getattr(operands, name)
        rules.expect(aval.size == 1, "sizes", field, f"is {aval}, expected one value")
    return BinaryPlan(kind, operands, arithmetic, Aval(output_dtype, shape))


def _parameter_dtypes(operands: Avals, output_dtype: np.dtype) -> dict[str, np.dtype]:
    """The dtypes of all scales and zero points."""
    scales = dict.fromkeys(("a_scale", "b_scale", "output_scale"), np.dtype(np.float32))
    points = {"a": operands.a.dtype, "b": operands.b.dtype, "output": output_dtype}
    return scales | {f"{name}_zero_point": dtype for name, dtype in points.items()}


def output_partition(plan: BinaryPlan, operands: Operands) -> compat.Partition:
    """The output is split over a mesh as `a` is, and as `b` is along the axes that are left."""
    rank = len(plan.output.shape)
    a, b = (
        (None,) * (rank - x.ndim) + tuple(compat.partition(x)) for x in (operands.a, operands.b)
    )
    taken = {name for axis in a for name in compat.mesh_axes(axis)}
    free = (None if taken & {*compat.mesh_axes(axis)} else axis for axis in b)
    return tuple(x or y for x, y in zip(a, free, strict=True))


def _broadcast(rules: Rules, a: Aval, b: Aval) -> tuple[int, ...]:
    """The output's shape, NumPy's."""
    shape = broadcast_shapes(a.shape, b.shape)
    if shape is None:
        rules.fail("sizes", FIELDS.b, f"is {b}, expected a shape that broadcasts with ATensor {a}")
    return shape
