"""A layer normalization from 8 bits to 8 bits on Hopper GPUs, in one kernel."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import Aval
from dmlax._cuda import capability
from dmlax._fused.layer_normalization.plan import LayerNormalization, LayerNormalizationPlan

_MOST_ELEMENTS = 4096  # a lane holds a 32nd of a row in registers
_WORD = 4  # bytes that a lane takes at once
_SCALES = (1e-12, 1e12)  # whose squares are float32 numbers


def why_not(plan: LayerNormalizationPlan, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform) or capability.why_not_so_many(plan.output):
        return why
    (*_, count) = plan.input.shape
    if count % _WORD or not 0 < count <= _MOST_ELEMENTS:
        return f"its rows have {count} elements, not whole words and at most {_MOST_ELEMENTS:,}"
    a_row = Aval(np.dtype(np.float32), (count,))
    if plan.scale != a_row or plan.bias not in (a_row, None):
        return "its scale and its bias are not a float32 for each element of a row"
    if not _SCALES[0] < abs(plan.x_scale) < _SCALES[1]:
        return f"its scale of {plan.x_scale} squared is no float32"
    return None if plan.arithmetic == "float32" else "its quotients are rounded once"


def run(plan: LayerNormalizationPlan, operands: LayerNormalization) -> Array:
    """Runs the kernel."""
    from dmlax._fused.layer_normalization.cuda import kernel

    parameters = plan.x_scale, plan.y_scale, plan.y_zero_point, plan.epsilon
    x, *factors = (jnp.asarray(operand) for operand in operands if operand is not None)
    quantization = kernel.Quantization(plan.input.dtype, plan.output.dtype, *parameters)
    return kernel.normalize(quantization, x, *factors)
