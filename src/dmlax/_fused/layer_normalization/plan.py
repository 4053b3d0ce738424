"""Plans a layer normalization from 8 bits to 8 bits."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jax import Array

from dmlax._core.arguments import Aval, aval_of, avals_of
from dmlax._core.plans import BasePlan
from dmlax._core.requantize import Arithmetic


class LayerNormalization(NamedTuple):
    """The operands: 8-bit rows, a factor for every column, and an addend or None."""

    input: Array
    scale: Array
    bias: Array | None


@dataclass(frozen=True)
class LayerNormalizationPlan(BasePlan):
    """Everything static that a lowering reads: of a normalization of the last axis."""

    input: Aval
    scale: Aval
    bias: Aval | None
    output: Aval
    x_scale: float
    x_zero_point: int
    y_scale: float
    y_zero_point: int
    epsilon: float
    arithmetic: Arithmetic

    def __str__(self) -> str:
        return f"{self.input} to {self.output.dtype.name} along the last axis, {self.arithmetic}"


def plan(
    operands: LayerNormalization,
    x_parameters: tuple[float, int],
    y_parameters: tuple[float, int],
    output_dtype: np.dtype,
    *,
    epsilon: float,
    arithmetic: Arithmetic,
) -> tuple[LayerNormalizationPlan, LayerNormalization]:
    """Plans a call, and returns its operands.

    Args:
      operands: the tensors.
      x_parameters: the scale and the zero point of the input.
      y_parameters: those of the output.
      output_dtype: int8 or uint8.
      epsilon: added to the variance.
      arithmetic: of both quantizations.
    """
    input, scale, bias = avals_of(operands)
    output = Aval(output_dtype, input.shape)
    parameters = *x_parameters, *y_parameters
    of_call = LayerNormalizationPlan(input, scale, bias, output, *parameters, epsilon, arithmetic)
    return of_call, operands


def local_plan(
    plan: LayerNormalizationPlan, operands: LayerNormalization
) -> tuple[LayerNormalizationPlan, LayerNormalization]:
    """Plans for a part of the rows."""
    output = plan.output._replace(shape=operands.input.shape)
    return replace(plan, input=aval_of(operands.input), output=output), operands
