"""The sum of two quantized tensors, quantized: rounded once, or in ONNX Runtime's float32.

Exact means: both terms become integers of 64 bits with one exponent, of which the last bit says
whether the smaller term has bits below. The sum is compared with the tie next to a float estimate,
modulo 2**32, so no float operation decides anything.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core import fixed_point, float_bits
from dmlax._core.fixed_point import Multiplier
from dmlax._core.requantize import MAGNITUDE_LIMIT, Arithmetic, round_float32, saturate

SumRequantization = Literal["fixed_point_single", "fixed_point_double"]
SUM_REQUANTIZATIONS = get_args(SumRequantization)
_LEFT = 20  # bits by which a term is shifted before its multiplier


class SumFactors(NamedTuple):
    """The multipliers of both terms and of their sum, or integers and a shift."""

    a: Any
    b: Any
    total: Any


def sum_factors(
    requantization: SumRequantization, a: Any, b: Any, output: Any, left: int = _LEFT
) -> SumFactors:
    """The factors of float32 scales, which are NumPy's or computed by the program."""
    is_known = all(isinstance(x, np.ndarray | np.generic) for x in (a, b, output))
    if requantization == "fixed_point_single":
        return _known_ratios(a, b, output) if is_known else _ratios(a, b, output)
    one, greatest = np.float32(1), np.maximum(a, b) if is_known else jnp.maximum(a, b)
    kind: Callable[..., Multiplier] = _known_quotient if is_known else Multiplier.of_quotient
    first, second = (kind(scale, one, 2 * greatest) for scale in (a, b))
    return SumFactors(first, second, kind(greatest, np.float32(2.0 ** (1 - left)), output))


def _known_quotient(x: Any, y: Any, divisor: Any) -> Multiplier:
    return Multiplier.of(np.float64(x) * np.float64(y) / np.float64(divisor))


def _known_ratios(a: Any, b: Any, output: Any) -> SumFactors:
    """XNNPACK's: integers of 21 bits, and the shift of their products' sum."""
    ratios = [np.float32(scale / output) for scale in (a, b)]
    shift = 21 - int(np.frexp(max(ratios))[1])
    first, second = (np.int32(np.rint(np.ldexp(x, shift))) for x in ratios)
    return SumFactors(first, second, np.int32(shift))


def _ratios(a: Array, b: Array, output: Array) -> SumFactors:
    ratios = [float_bits.unpack(float_bits.divide(scale, output)) for scale in (a, b)]
    shift = 20 - 23 - jnp.maximum(ratios[0].exponent, ratios[1].exponent)
    terms = []
    for x in ratios:  # mantissa * 2**(exponent + shift), of 21 bits at most
        count = jnp.clip(-x.exponent - shift, 0, 31).astype(jnp.uint32)
        half = (jnp.uint32(1) << (count - 1)) - 1 + ((x.mantissa >> count) & 1)
        terms.append(((x.mantissa + half) >> count).astype(jnp.int32))
    return SumFactors(terms[0], terms[1], shift)


def sum_by_factors(
    requantization: SumRequantization,
    x: Array,
    y: Array,
    by: SumFactors,
    sign: int = 1,
    left: int = _LEFT,
    scale: Callable[[Array, Multiplier], Array] = fixed_point.scale_half_away,
) -> Array:
    """The int32 sum, or with sign -1 difference, of int32 terms in the output's scale.

    Args:
      requantization: "fixed_point_single", `(x * a + y * b + 2**(shift - 1)) >> shift`; or
        "fixed_point_double", of terms that are shifted left, three multipliers.
      x: the first term, less its zero point.
      y: the second.
      by: `sum_factors` of their scales.
      sign: 1 or -1.
      left: the bits of the shift.
      scale: the rounding of a term's product.
    """
    if requantization == "fixed_point_single":
        shift = jnp.clip(by.total, 1, 30)
        total: Array = x * by.a + y * (sign * by.b) + (jnp.int32(1) << (shift - 1))
        return total >> shift
    first, second = (scale(value << left, factor) for value, factor in ((x, by.a), (y, by.b)))
    return fixed_point.scale_half_away(first + sign * second, by.total)


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
