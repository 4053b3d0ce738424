"""Plans a layer normalization of 8 bits from its operands and constants."""

import numpy as np

from dmlax._core.arguments import Aval, avals_of
from dmlax._core.requantize import Arithmetic
from dmlax._layer_normalization.plan import LayerNormalization, LayerNormalizationPlan


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
