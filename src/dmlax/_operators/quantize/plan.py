"""Checks an element-wise call and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core.arguments import Aval, Rules, avals_of, broadcasts_to, narrow_float64, strong_dtype
from dmlax._core.axis_names import AxisNames, along, broadcast, numbered
from dmlax._core.partitions import partition_by_names
from dmlax._core.plans import BasePlan
from dmlax._core.requantize import ARITHMETICS, Arithmetic

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
class ElementwisePlan(BasePlan):
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


def axis_names(plan: ElementwisePlan, operands: Elementwise) -> AxisNames:
    """Every axis of the input may be split, and the parameters with it."""
    shape = plan.input.shape
    names = numbered(len(shape))

    def of(parameter: Array) -> str:
        if plan.axis is None:
            return broadcast(parameter.shape, names, shape)
        return along(parameter.shape, names.split()[plan.axis], shape[plan.axis])

    return AxisNames((names, *jax.tree.map(of, operands[1:])), names)


output_partition = partition_by_names(axis_names)


def local_plan(plan: ElementwisePlan, operands: Elementwise) -> tuple[ElementwisePlan, Elementwise]:
    """Plans for a part of the input."""
    input, scale, zero_point = avals_of(operands)
    output = plan.output._replace(shape=input.shape)
    return replace(plan, input=input, scale=scale, zero_point=zero_point, output=output), operands


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


def plan_quantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: Arithmetic = "exact",
) -> tuple[ElementwisePlan, Elementwise]:
    """Plans a quantization, and returns its operands."""
    rules = QUANTIZE_RULES
    array = narrow_float64(rules.to_array("InputTensor", input))
    rules.expect_choice("arithmetic", arithmetic, ARITHMETICS)
    dtype = rules.choose_output_dtype(output_dtype, "ZeroPointTensor", zero_point, np.uint8)
    operands = Elementwise(
        array,
        rules.to_scale(
            "ScaleTensor", scale, np.float16 if array.dtype == np.float16 else np.float32
        ),
        rules.to_parameter("ZeroPointTensor", zero_point, dtype),
    )
    avals = avals_of(operands)
    return quantize_plan(rules, *avals, _axis(rules, axis), dtype, arithmetic), operands


def plan_dequantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    axis: int | None = None,
) -> tuple[ElementwisePlan, Elementwise]:
    """Plans a dequantization, and returns its operands."""
    rules = DEQUANTIZE_RULES
    array = rules.to_array("InputTensor", input)
    operands = Elementwise(
        array,
        rules.to_scale("ScaleTensor", scale, _output_dtype(scale)),
        rules.to_parameter("ZeroPointTensor", zero_point, array.dtype),
    )
    return dequantize_plan(rules, *avals_of(operands), _axis(rules, axis)), operands


def _output_dtype(scale: ArrayLike) -> np.dtype:
    """The dtype of a dequantization's output: an array's, which the plan checks, or float32."""
    dtype = scale.dtype.newbyteorder("=") if isinstance(scale, np.ndarray) else strong_dtype(scale)
    return np.dtype(np.float32 if dtype is None else dtype)


def _axis(rules: Rules, axis: int | None) -> int | None:
    return None if axis is None else rules.to_integer("axis", axis, -64, 63)
