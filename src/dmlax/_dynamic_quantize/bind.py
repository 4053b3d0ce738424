"""Converts the arguments of a dynamic quantization to its operand."""

import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core import requantize
from dmlax._core.arguments import aval_of, narrow_float64
from dmlax._dynamic_quantize.plan import RULES, DynamicQuantizePlan, dynamic_quantize_plan


def plan(
    input: ArrayLike,
    /,
    *,
    output_dtype: DTypeLike = np.uint8,
    arithmetic: requantize.Arithmetic = "exact",
) -> tuple[DynamicQuantizePlan, Array]:
    """Plans a call, and returns its operand."""
    array = narrow_float64(RULES.to_array("InputTensor", input))
    RULES.expect_choice("arithmetic", arithmetic, requantize.ARITHMETICS)
    dtype = RULES.choose_output_dtype(output_dtype, "OutputTensor", None, np.uint8)
    return dynamic_quantize_plan(aval_of(array), dtype, arithmetic), array
