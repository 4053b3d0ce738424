"""A layer normalization in three calls: dequantize, normalize, quantize."""

import numpy as np
from jax import Array

from dmlax._fused.layer_normalization.plan import LayerNormalization, LayerNormalizationPlan
from dmlax._fused.rows import call as rows
from dmlax._operators.quantize.api import DEQUANTIZE, QUANTIZE


def run(plan: LayerNormalizationPlan, operands: LayerNormalization) -> Array:
    """Runs the three operators."""
    x, scale, bias = operands
    x_zero = np.asarray(plan.x_zero_point, x.dtype)
    real = DEQUANTIZE.call(*DEQUANTIZE.plan(x, np.float32(plan.x_scale), x_zero))
    y = rows.normalize(real, scale, bias, plan.epsilon)
    y_zero = np.asarray(plan.y_zero_point, plan.output.dtype)
    options = {"output_dtype": plan.output.dtype, "arithmetic": plan.arithmetic}
    return QUANTIZE.call(*QUANTIZE.plan(y, np.float32(plan.y_scale), y_zero, **options))
