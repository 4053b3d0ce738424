"""Checks a dynamic quantization and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from dmlax._core.arguments import Aval, Rules, aval_of, narrow_float64
from dmlax._core.plans import BasePlan
from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax._operators.dynamic_quantize.result import DynamicQuantizeLinear

RULES = Rules("dynamic_quantize_linear")


@dataclass(frozen=True)
class DynamicQuantizePlan(BasePlan):
    """Everything static that a lowering reads."""

    input: Aval
    dtype: np.dtype
    arithmetic: Arithmetic

    @property
    def output(self) -> DynamicQuantizeLinear:
        """The dtypes and shapes of the result."""
        avals = (
            Aval(self.dtype, self.input.shape),
            Aval(np.dtype(np.float32), ()),
            Aval(self.dtype, ()),
        )
        return DynamicQuantizeLinear._make(avals)

    def __str__(self) -> str:
        return f"{self.input} -> {', '.join(map(str, self.output))}"


@functools.lru_cache(maxsize=4096)
def dynamic_quantize_plan(
    input: Aval, dtype: np.dtype, arithmetic: Arithmetic
) -> DynamicQuantizePlan:
    """Checks the call."""
    RULES.expect_dtype("InputTensor", input, jnp.float32, jnp.float16)
    RULES.expect_rank("InputTensor", input)
    return DynamicQuantizePlan(input, dtype, arithmetic)


def plan(
    input: ArrayLike, *, output_dtype: DTypeLike = np.uint8, arithmetic: Arithmetic = "exact"
) -> tuple[DynamicQuantizePlan, Array]:
    """Plans a call, and returns its operand."""
    array = narrow_float64(RULES.to_array("InputTensor", input))
    RULES.expect_choice("arithmetic", arithmetic, ARITHMETICS)
    dtype = RULES.choose_output_dtype(output_dtype, "OutputTensor", None, np.uint8)
    return dynamic_quantize_plan(aval_of(array), dtype, arithmetic), array
