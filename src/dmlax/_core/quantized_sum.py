"""The sum of two quantized tensors, quantized: rounded once, or in ONNX Runtime's float32.

Exact means: both terms become integers of 64 bits with one exponent, of which the last bit says
whether the smaller term has bits below. The sum is compared with the tie next to a float estimate,
modulo 2**32, so no float operation decides anything.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import float_bits
from dmlax._core.requantize import MAGNITUDE_LIMIT, Arithmetic, round_float32, saturate


class Quantized(NamedTuple):
    """The real numbers `(values - zero_point) * scale`."""

    values: Array  # int8 or uint8
    scale: Array  # float32
    zero_point: Array | None  # has the values' dtype; None stands for 0

    @property
    def steps(self) -> Array:
        """values - zero_point, int32."""
        values = self.values.astype(jnp.int32)
        return values if self.zero_point is None else values - self.zero_point.astype(jnp.int32)


def quantized_sum(
    a: Quantized,
    b: Quantized,
    scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """clamp(round((a + b) / scale) + zero_point), all operands broadcast.

    Args:
      a: one addend.
      b: the other; float32 arithmetic depends on their order.
      scale: float32, the output's.
      zero_point: of `dtype`, or None for 0.
      dtype: int8 or uint8.
      arithmetic: "exact", or "float32" for ONNX Runtime's bits.
    """
    if arithmetic == "float32":
        return _sum_float32(a, b, scale, zero_point, dtype)
    total = float_bits.add_wide(_term(a), _term(b))
    return saturate(_round_quotient(total, scale), zero_point, dtype)


def _term(x: Quantized) -> float_bits.WideFloat:
    """(values - zero_point) * scale, the magnitude in the upper half."""
    factor = float_bits.unpack(x.scale)
    magnitude = jnp.abs(x.steps).astype(jnp.uint32) * factor.mantissa  # the product is below 2**32
    wide = float_bits.shift_left_wide((jnp.zeros_like(magnitude), magnitude), jnp.uint32(30))
    return float_bits.WideFloat((x.steps < 0) ^ factor.negative, wide, factor.exponent - 30)


def _round_quotient(x: float_bits.WideFloat, scale: Array) -> Array:
    """round(x / scale), ties to even; beyond 255 any value from it on."""
    s = float_bits.unpack(scale)
    # 2 * |x / scale| is the magnitude of units of 2**(exponent of the scale - 2), by 2 * mantissa.
    shift = x.exponent - s.exponent + 2
    high, low = x.magnitude
    size = high.astype(jnp.float32) * 2.0**32 + low.astype(jnp.float32)
    estimate = size / s.mantissa.astype(jnp.float32)
    estimate = estimate * float_bits.power_of_two(jnp.clip(shift - 2, -100, 60))
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT).astype(jnp.int32)
    # The difference is below 2**27, so that arithmetic modulo 2**32 gets it right.
    _, right = float_bits.shift_right_sticky(x.magnitude, -shift)
    left = low << jnp.clip(shift, 0, 31).astype(jnp.uint32)
    doubled = jnp.where(shift > 31, 0, jnp.where(shift > 0, left, right))
    middle = (2 * s.mantissa) * (2 * below + 1).astype(jnp.uint32)
    excess = float_bits.bitcast(doubled - middle, jnp.int32)
    rounded = below + ((excess > 0) | ((excess == 0) & (below & 1 == 1))).astype(jnp.int32)
    return jnp.where(x.negative ^ s.negative, -rounded, rounded)


def _sum_float32(
    a: Quantized, b: Quantized, scale: Array, zero_point: Array | None, dtype: DTypeLike
) -> Array:
    """ONNX Runtime's fused multiply-adds, whose last one has the zero point already."""
    a_ratio, b_ratio = (float_bits.divide(x.scale, scale) for x in (a, b))
    a_zero, b_zero, zero = (
        jnp.float32(0) if point is None else point.astype(jnp.float32)
        for point in (a.zero_point, b.zero_point, zero_point)
    )
    zeros = float_bits.fma(a_ratio, a_zero, float_bits.multiply(b_ratio, b_zero))
    fixed = float_bits.subtract(zero, zeros)
    value = float_bits.fma(b.values.astype(jnp.float32), b_ratio, fixed)
    return round_float32(float_bits.fma(a.values.astype(jnp.float32), a_ratio, value), dtype)
