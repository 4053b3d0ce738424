"""The definition of dynamic quantization: a range, its parameters, and a quantization."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat, float_bits, requantize
from dmlax._core.requantize import Arithmetic
from dmlax._operators.dynamic_quantize.plan import DynamicQuantizePlan
from dmlax._operators.dynamic_quantize.result import DynamicQuantizeLinear

_ONE = np.uint32(0x3F800000)  # the bits of 1.0


def run(plan: DynamicQuantizePlan, input: Array) -> DynamicQuantizeLinear:
    """Quantizes by the scale and zero point of the range of 0 and all values."""
    low, high = value_range(input)
    scale, zero_point = parameters(low, high, plan.dtype, plan.arithmetic)
    output = requantize.quantize(input, scale, zero_point, plan.dtype, plan.arithmetic)
    return DynamicQuantizeLinear(output, scale, zero_point)


def value_range(input: Array) -> tuple[Array, Array]:
    """The least and the greatest of 0 and all values, in float32, subnormals kept."""
    keys = float_bits.to_ordered(input.astype(jnp.float32))
    low, high = keys.min(initial=0), keys.max(initial=0)
    return float_bits.from_ordered(low), float_bits.from_ordered(high)


@compat.shared("dtype", "arithmetic")
def parameters(
    low: Array, high: Array, dtype: np.dtype, arithmetic: Arithmetic
) -> tuple[Array, Array]:
    """The scale (high - low) / 255, rounded once, and the zero point, which low becomes."""
    if arithmetic == "float32":
        scale = float_bits.divide(float_bits.subtract(high, low), jnp.float32(255))
    else:
        scale = requantize.divide_range(low, high)
    # As integers: LLVM turns a zero test of the bits before a choice of floats into one of floats,
    # for which a subnormal is zero.
    bits = float_bits.raw_bits(scale)
    scale = float_bits.bitcast(jnp.where(bits == 0, _ONE, bits), jnp.float32)
    lowest = jnp.asarray(np.iinfo(dtype).min, dtype)
    negated = float_bits.negate(low)
    return scale, requantize.quantize(negated, scale, lowest, dtype, arithmetic)


def tangent(plan: DynamicQuantizePlan, input: Array, direction: Array) -> DynamicQuantizeLinear:
    """The scale's derivative, which is linear in the range; the other outputs are integers."""

    def size(x: Array) -> Array:
        reals = x.astype(jnp.float32)
        return (reals.max(initial=0) - reals.min(initial=0)) / 255

    _, slope = jax.jvp(size, (input,), (direction,))
    no_tangent = np.zeros(plan.input.shape, jax.dtypes.float0)
    return DynamicQuantizeLinear._make((no_tangent, slope, np.zeros((), jax.dtypes.float0)))
