"""Converts the arguments of a softmax of 8 bits to operands."""

import math

import numpy as np
from jax import Array

from dmlax._core.arguments import aval_of
from dmlax._softmax.plan import Softmax, SoftmaxPlan
from dmlax.errors import UnsupportedError


def plan(
    x: Array, x_scale: float, y_scale: np.float32, y_zero_point: int
) -> tuple[SoftmaxPlan, Softmax]:
    """Makes the table of exponentials, and plans the call; the scales are constants."""
    if not (x_scale > 0 and math.isfinite(x_scale)):
        raise UnsupportedError("its x_scale is not positive, or not finite")
    with np.errstate(all="ignore"):
        multiplier = float(np.floor(np.float32(1) / y_scale))
    if not math.isfinite(multiplier):
        raise UnsupportedError("1 / y_scale is no finite float32")
    terms = _exponentials(x_scale, int(x.shape[-1]))
    return SoftmaxPlan(aval_of(x), y_zero_point, multiplier), Softmax(x, terms)


def _exponentials(scale: float, count: int) -> np.ndarray:
    """exp of 0 to -255 steps, as large as a float32 sum of `count` of them allows."""
    largest = np.finfo(np.float32).max / np.float32(count)
    logarithm = float(np.float32(math.log(largest)))  # ONNX Runtime's is a float32
    shift = max(0.0, logarithm - 5) / scale
    return np.asarray([math.exp((i - 255 + shift) * scale) for i in range(256)], np.float32)
