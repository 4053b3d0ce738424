"""Converts the arguments of the element-wise operators to operands."""

import numpy as np
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import requantize
from dmlax._core.arguments import Rules, avals_of, narrow_float64, strong_dtype
from dmlax._quantize.plan import (
    DEQUANTIZE_RULES,
    QUANTIZE_RULES,
    Elementwise,
    ElementwisePlan,
    dequantize_plan,
    quantize_plan,
)


def plan_quantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    /,
    *,
    axis: int | None = None,
    output_dtype: DTypeLike | None = None,
    arithmetic: requantize.Arithmetic = "exact",
) -> tuple[ElementwisePlan, Elementwise]:
    """Plans a quantization, and returns its operands."""
    rules = QUANTIZE_RULES
    array = narrow_float64(rules.to_array("InputTensor", input))
    rules.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
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
    /,
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
