"""Checks an element-wise call and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax._core.arguments import Aval, Rules, broadcasts_to
from dmlax._core.requantize import Arithmetic

QUANTIZE_RULES = Rules("element_wise_quantize_linear")
DEQUANTIZE_RULES = Rules("element_wise_dequantize_linear")
_SCALE_OF = {"float32": "float32", "float16": "float16", "int32": "float32"}
_INTEGERS = (jnp.int8, jnp.uint8, jnp.int16, jnp.uint16, jnp.int32, jnp.uint32)


class Elementwise(NamedTuple):
    """The operands of both operators."""

    input: Array
    scale: Array
    zero_point: Array | None = None


@dataclass(frozen=True)
class ElementwisePlan:
    """Everything static that a lowering reads."""

    input: Aval
    scale: Aval
    zero_point: Aval | None
    axis: int | None
    arithmetic: Arithmetic
    output: Aval

    @property
    def quantizes(self) -> bool:
        """True for a quantization, False for a dequantization."""
        return self.output.dtype.kind != "f"

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def spread_all(self, operands: Elementwise) -> Elementwise:
        """Reshapes the parameters so that they broadcast."""
        _, scale, zero_point = operands
        return operands._replace(
            scale=self.spread(scale), zero_point=jax.tree.map(self.spread, zero_point)
        )

    def spread(self, parameter: Array) -> Array:
        """Reshapes a parameter to the input's rank, so that it broadcasts."""
        if parameter.ndim == 0:
            return parameter
        rank = len(self.input.shape)
        end = rank if self.axis is None else self.axis + 1
        before, after = end - parameter.ndim, rank - end
        return parameter.reshape((1,) * before + parameter.shape + (1,) * after)

    def __str__(self) -> str:
        return f"{self.input}, scale {self.scale} -> {self.output}"


@functools.lru_cache(maxsize=4096)
def quantize_plan(
    rules: Rules,
    input: Aval,
    scale: Aval,
    zero_point: Aval | None,
    axis: int | None,
    output_dtype: np.dtype,
    arithmetic: Arithmetic,
) -> ElementwisePlan:
    """Checks a quantization."""
    rules.expect_dtype("InputTensor", input, *_SCALE_OF)
    rules.expect_dtype("ScaleTensor", scale, _SCALE_OF[input.dtype.name])
    if zero_point is not None:
        rules.expect_dtype("ZeroPointTensor", zero_point, output_dtype)
    return _plan(rules, input, scale, zero_point, axis, arithmetic, output_dtype)


@functools.lru_cache(maxsize=4096)
def dequantize_plan(
    rules: Rules, input: Aval, scale: Aval, zero_point: Aval | None, axis: int | None
) -> ElementwisePlan:
    """Checks a dequantization."""
    rules.expect_dtype("InputTensor", input, *_INTEGERS)
    rules.expect_dtype("ScaleTensor", scale, jnp.float32, jnp.float16)
    if zero_point is not None:
        rules.expect_dtype("ZeroPointTensor", zero_point, input.dtype)
    return _plan(rules, input, scale, zero_point, axis, "exact", scale.dtype)


def output_partition(plan: ElementwisePlan, operands: Elementwise) -> compat.Partition:
    """The output is split over a mesh as the input is."""
    return compat.partition(operands.input)


def _plan(
    rules: Rules,
    input: Aval,
    scale: Aval,
    zero_point: Aval | None,
    axis: int | None,
    arithmetic: Arithmetic,
    dtype: np.dtype,
) -> ElementwisePlan:
    rank = len(input.shape)
    rules.expect_rank("InputTensor", input)
    if axis is not None:
        within = f"is {axis}, expected {-rank} to {rank - 1} for InputTensor {input}"
        rules.expect(-rank <= axis < rank, "option", "axis", within)
        axis %= rank
    for field, parameter in (("ScaleTensor", scale), ("ZeroPointTensor", zero_point)):
        if parameter is not None:
            _check_shape(rules, field, parameter, input, axis)
    output = Aval(np.dtype(dtype), input.shape)
    return ElementwisePlan(input, scale, zero_point, axis, arithmetic, output)


def _check_shape(rules: Rules, field: str, parameter: Aval, input: Aval, axis: int | None) -> None:
    if axis is None:
        wanted = f"a shape that broadcasts to InputTensor {input}"
        good = broadcasts_to(parameter.shape, input.shape)
        rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}")
        return
    size = input.shape[axis]
    wanted = f"one value or {size}, as axis {axis} of InputTensor {input}"
    good = parameter.shape in ((), (1,), (size,))
    rules.expect(good, "sizes", field, f"is {parameter}, expected {wanted}")
