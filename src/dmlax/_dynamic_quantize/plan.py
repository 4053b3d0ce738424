"""Checks a dynamic quantization and plans it from shapes and dtypes alone."""

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from dmlax._core.arguments import Aval, Rules
from dmlax._core.requantize import Arithmetic
from dmlax._dynamic_quantize.result import DynamicQuantizeLinear

RULES = Rules("dynamic_quantize_linear")


@dataclass(frozen=True)
class DynamicQuantizePlan:
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

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

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
