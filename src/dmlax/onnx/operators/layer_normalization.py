"""Layer normalization from 8 bits to 8 bits: floats between, which no tensor holds on a Hopper GPU.

Each implementation sums and rounds those floats in its own order, as each library does.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat, dispatch
from dmlax._core.arguments import Aval, aval_of
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import capability
from dmlax._rows import call as rows
from dmlax.onnx.graph import OWN
from dmlax.onnx.operators import quantized
from dmlax.onnx.operators.table import Parameter, Tensor, operator

_MOST_ELEMENTS = 4096  # of a row: a lane of the kernel holds a 32nd of it in registers
_WORD = 4  # bytes that a lane of the kernel takes at once
_SCALES = (1e-12, 1e12)  # whose squares are float32 numbers


class LayerNormalization(NamedTuple):
    """The operands: 8-bit rows, what they are multiplied by, and what is added if any."""

    input: Any
    scale: Any
    bias: Any


@dataclass(frozen=True)
class LayerNormalizationPlan:
    """All that is static of a layer normalization of the last axis."""

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

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.input} to {self.output.dtype.name} along the last axis, {self.arithmetic}"


@operator("QuantizedLayerNormalization", 1, domain=OWN)
def normalize(
    x: Tensor,
    x_scale: Parameter,
    x_zero_point: Parameter,
    scale: Tensor,
    bias: Tensor | None,
    y_scale: Parameter,
    y_zero_point: Parameter,
    /,
    *,
    epsilon: float = 1e-5,
    arithmetic: Arithmetic,
) -> Any:
    """Dequantizes, normalizes the last axis, and quantizes."""
    operands = LayerNormalization(jnp.asarray(x), jnp.asarray(scale), bias)
    plan = LayerNormalizationPlan(
        input=aval_of(x),
        scale=aval_of(scale),
        bias=None if bias is None else aval_of(bias),
        output=Aval(np.dtype(y_zero_point.dtype), x.shape),
        x_scale=float(x_scale.item()),
        x_zero_point=int(x_zero_point.item()),
        y_scale=float(y_scale.item()),
        y_zero_point=int(y_zero_point.item()),
        epsilon=epsilon,
        arithmetic=arithmetic,
    )
    return dispatch.call(LAYER_NORMALIZATION, plan, operands, "auto")


def _why_not(plan: LayerNormalizationPlan, platform: str) -> str | None:
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


def _kernel(plan: LayerNormalizationPlan, operands: LayerNormalization) -> Array:
    """Runs the kernel."""
    from dmlax._cuda import layer_normalization as kernel

    parameters = plan.x_scale, plan.y_scale, plan.y_zero_point, plan.epsilon
    x, *factors = (jnp.asarray(each) for each in operands if each is not None)
    return kernel.normalize(kernel.Quantization(*parameters), plan.output.dtype, x, *factors)


def _in_steps(plan: LayerNormalizationPlan, operands: LayerNormalization) -> Array:
    """Dequantizes, normalizes and quantizes one after another."""
    x, scale, bias = operands
    zero_points = (
        np.asarray(plan.x_zero_point, x.dtype),
        np.asarray(plan.y_zero_point, plan.output.dtype),
    )
    x_scale = np.float32(plan.x_scale)
    real = quantized.dequantize(x, x_scale, zero_points[0], arithmetic=plan.arithmetic)
    y = rows.normalize(real, scale, bias, plan.epsilon)
    found: Array = quantized.quantize(
        y, np.float32(plan.y_scale), zero_points[1], arithmetic=plan.arithmetic
    )
    return found


LAYER_NORMALIZATION = dispatch.Operator(
    "quantized_layer_normalization",
    (dispatch.kernel("mosaic_gpu", _kernel, _why_not, "cuda"), dispatch.Lowering("xla", _in_steps)),
    partition=lambda plan, operands: compat.partition(operands.input),
)
