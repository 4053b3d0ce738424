"""The only rounding and saturation: exact by integer comparison, or ONNX Runtime's float32.

Exact means: `|acc| * scale` is truncated by a float estimate to `q`, and `q` becomes `q + 1` if
`|acc|` exceeds `(2 q + 1) / (2 scale)`. That threshold comes from the reciprocal of the scale in
fixed point, in 32-bit limbs, so a tie is representable and no float operation decides anything.
"""

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import float_bits

Arithmetic = Literal["exact", "float32"]
ARITHMETICS = get_args(Arithmetic)

_LIMB = 21  # limb width: a limb times (2 * 255 + 1) fits 32 bits
_DIGIT = 7  # digit width of a long division: three to a limb
_LIMBS = 5  # of the long division: two for the integer part, three for the fraction
_24_BITS = (1 << 24) - 1
_TIE_TO_EVEN = 1 << 12  # in units of 2**-63: above the truncation error, below the nearest non-tie
_SATURATED = np.uint32(1 << 31)  # no |accumulator| exceeds it
MAGNITUDE_LIMIT = 255  # |round(v)| of this or more saturates whatever the zero point


class Threshold(NamedTuple):
    """`1 / (2 * |scale|)` in fixed point, the largest value below the true one, and an estimate."""

    estimate: Array  # float32 scale with its sign, clipped so that products stay finite
    integer: Array  # uint32, saturated
    fraction: tuple[Array, Array, Array]  # 21-bit limbs, highest first


def requantizer(
    input_scale: Array,
    filter_scale: Array,
    output_scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Callable[[Array], Array]:
    """Prepares accumulator -> clamp(round(accumulator * sx * sw / sy) + zero_point).

    Args:
      input_scale: float32; it and the next three broadcast to the int32 accumulator.
      filter_scale: float32.
      output_scale: float32.
      zero_point: of `dtype`, or None for 0.
      dtype: int8 or uint8.
      arithmetic: "exact", or "float32" for ONNX Runtime's bits.
    """
    scales = jnp.broadcast_arrays(input_scale, filter_scale, output_scale)
    if arithmetic == "float32":
        factor = multiplier(*scales)
        return lambda accumulator: _quantize_float32(
            accumulator.astype(jnp.float32) * factor, zero_point, dtype
        )
    threshold = _threshold(*scales)
    return lambda accumulator: saturate(
        _round_by_threshold(accumulator, threshold), zero_point, dtype
    )


def quantize(
    x: Array, scale: Array, zero_point: Array | None, dtype: DTypeLike, arithmetic: Arithmetic
) -> Array:
    """clamp(round(x / scale) + zero_point) for float32, float16 or int32 `x`."""
    if arithmetic == "float32":
        quotient = float_bits.divide(x.astype(jnp.float32), scale.astype(jnp.float32))
        return _quantize_float32(quotient, zero_point, dtype)
    if x.dtype == jnp.int32:
        one = jnp.float32(1)
        return requantizer(one, one, scale, zero_point, dtype, arithmetic)(x)
    rounded = _round_quotient(x, scale)
    rounded = jnp.where(float_bits.is_nan(x), -2 * MAGNITUDE_LIMIT, rounded)
    return saturate(rounded, zero_point, dtype)


def dequantize(x: Array, scale: Array, zero_point: Array | None) -> Array:
    """(x - zero_point) * scale as a real number, rounded once to the scale's dtype, NaN kept."""
    zero = jnp.zeros((), x.dtype) if zero_point is None else zero_point
    below = x < zero
    difference = jnp.where(below, _unsigned(zero) - _unsigned(x), _unsigned(x) - _unsigned(zero))
    factor = float_bits.unpack(scale)
    product = float_bits.multiply_wide(difference, factor.mantissa)
    result = float_bits.pack(below ^ factor.negative, product, factor.exponent, scale.dtype)
    return jnp.where(float_bits.is_nan(scale), scale, result)


def _unsigned(x: Array) -> Array:
    """uint32 congruent to `x` modulo 2**32."""
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return lax.bitcast_convert_type(x.astype(jnp.int32), jnp.uint32)
    return x.astype(jnp.uint32)


def saturate(rounded: Array, zero_point: Array | None, dtype: DTypeLike) -> Array:
    """clamp(rounded + zero_point) for |rounded| below 2**30."""
    limits = np.iinfo(np.dtype(dtype))
    if zero_point is not None:
        rounded = rounded + zero_point.astype(jnp.int32)
    return jnp.clip(rounded, limits.min, limits.max).astype(dtype)


def round_float32(value: Array, dtype: DTypeLike) -> Array:
    """ONNX Runtime's conversion of a float32 that has the zero point: round, then clamp.

    It is that of an x86-64 processor, so NaN and what no int32 holds give the lowest value.
    """
    limits = np.iinfo(np.dtype(dtype))
    value = jnp.where(value < 2.0**31, value, jnp.float32(limits.min))
    value = jnp.clip(value, limits.min, limits.max)
    return lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int32).astype(dtype)


def _quantize_float32(value: Array, zero_point: Array | None, dtype: DTypeLike) -> Array:
    """ONNX Runtime's order: clamp to the range less the zero point, round, add the zero point."""
    zero = jnp.int32(0) if zero_point is None else zero_point.astype(jnp.int32)
    limits = np.iinfo(np.dtype(dtype))
    low = (limits.min - zero).astype(jnp.float32)
    high = (limits.max - zero).astype(jnp.float32)
    value = jnp.where(value > low, value, low)  # not maximum: NaN gives the lowest value
    value = jnp.where(value < high, value, high)
    return (lax.round(value, lax.RoundingMethod.TO_NEAREST_EVEN).astype(jnp.int32) + zero).astype(
        dtype
    )


def _round_quotient(x: Array, scale: Array) -> Array:
    """round(x / scale), ties to even, for finite floats; beyond 255 any value from it on."""
    a, s = float_bits.unpack(x), float_bits.unpack(scale)
    # 2 * |x / scale| = (a.mantissa << shift) / s.mantissa
    shift = jnp.clip(a.exponent - s.exponent + 1, -1, 20)
    ratio = a.mantissa.astype(jnp.float32) / s.mantissa.astype(jnp.float32)
    estimate = jnp.where(
        float_bits.is_infinite(x), jnp.float32(jnp.inf), ratio * float_bits.power_of_two(shift - 1)
    )
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT).astype(jnp.int32)
    # The difference is below 2**25, so that arithmetic modulo 2**32 gets it right.
    doubled = a.mantissa << jnp.maximum(shift, 0).astype(jnp.uint32)
    middle = s.mantissa * (2 * below + 1).astype(jnp.uint32)
    excess = lax.bitcast_convert_type(doubled - middle, jnp.int32)
    up = (shift >= 0) & ((excess > 0) | ((excess == 0) & (below & 1 == 1)))
    rounded = below + up.astype(jnp.int32)
    return jnp.where(a.negative ^ s.negative, -rounded, rounded)


def _round_by_threshold(accumulator: Array, threshold: Threshold) -> Array:
    """round(accumulator * scale), ties to even; above 255, any value above 255."""
    magnitude = lax.bitcast_convert_type(jnp.abs(accumulator), jnp.uint32)  # |INT_MIN| fits
    estimate = magnitude.astype(jnp.float32) * jnp.abs(threshold.estimate)
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT).astype(jnp.int32).astype(jnp.uint32)
    twice = 2 * below + 1
    high, middle, low = threshold.fraction
    carry = low * twice + ((~below & 1) * _TIE_TO_EVEN)
    carry = middle * twice + (carry >> _LIMB)
    carry = high * twice + (carry >> _LIMB)
    limit = threshold.integer * twice + (carry >> _LIMB)
    rounded = (below + (magnitude > limit).astype(jnp.uint32)).astype(jnp.int32)
    sign = (accumulator ^ lax.bitcast_convert_type(threshold.estimate, jnp.int32)) >> 31
    return (rounded ^ sign) - sign


def _compute_once(x: Array, *sources: Array) -> Array:
    """Returns the uint32 `x`, which is computed once and not for every element it is broadcast to.

    XLA on a CPU repeats cheap operations for each element, and not a division. What it divides by
    is 1, which only the last compiler sees, unless the sources are constants.
    """
    bits = functools.reduce(jnp.bitwise_or, map(float_bits.raw_bits, sources))
    return lax.div(x, jnp.broadcast_to((lax.clz(bits) >> 6) + 1, x.shape))


@jax.jit  # traced once for scales of the same shape, as is `_threshold`
def multiplier(input_scale: Array, filter_scale: Array, output_scale: Array) -> Array:
    """The float32 multiplier of ONNX Runtime: a product and a quotient, each rounded."""
    value = float_bits.divide(float_bits.multiply(input_scale, filter_scale), output_scale)
    bits = _compute_once(float_bits.raw_bits(value), input_scale, filter_scale, output_scale)
    return lax.bitcast_convert_type(bits, jnp.float32)


@jax.jit
def _threshold(input_scale: Array, filter_scale: Array, output_scale: Array) -> Threshold:
    """Divides S by 2 * P, P the product of two mantissas: long division, 7 bits a step.

    The result has a row for each limb, and every row divides from the start to its own limb: one
    kernel computes them all. The rest stays positive, so the digits are strictly below the
    quotient.
    """
    scales = tuple(scale[None] for scale in (input_scale, filter_scale, output_scale))
    a, b, s = map(float_bits.unpack, scales)
    # The reciprocal is S * 2**23 / P * 2**exponent, that quotient in (1/4, 2). Beyond the clip
    # every accumulator saturates, or none reaches one half.
    exponent = jnp.clip(s.exponent - a.exponent - b.exponent - 24, -2 * _LIMB, 33)
    size = a.mantissa.astype(jnp.float32) * b.mantissa.astype(jnp.float32)
    estimate = size / s.mantissa.astype(jnp.float32) * float_bits.power_of_two(-24 - exponent)
    estimate = jnp.where(a.negative ^ b.negative ^ s.negative, -estimate, estimate)
    divisor = _by_24_bits(float_bits.multiply_wide(a.mantissa, b.mantissa))
    inverse = 2.0 ** (24 + _DIGIT) / size
    # The first limb that is not zero is that of 2**(_LIMB * place).
    place = lax.div(exponent + 2 * _LIMB, jnp.int32(_LIMB)) - 2
    shift = (exponent - place * _LIMB + 2).astype(jnp.uint32)
    shape = (_LIMBS, *input_scale.shape)
    row = lax.broadcasted_iota(jnp.int32, shape, 0)
    limbs = row - (1 - place)
    dividend = _by_24_bits((s.mantissa >> (32 - shift), s.mantissa << shift))
    rest = jnp.broadcast_to(dividend[0], shape), jnp.broadcast_to(dividend[1], shape)
    for index in range(_LIMBS - 1):
        _, (high, low) = _divide_limb(rest, divisor, inverse)
        more = limbs > index
        rest = jnp.where(more, high, rest[0]), jnp.where(more, low, rest[1])
    limb, _ = _divide_limb(rest, divisor, inverse)
    limb = jnp.where(limbs >= 0, limb, 0)
    limb = jnp.where(row == 0, jnp.minimum(limb, _SATURATED >> _LIMB), limb)
    high, integer, *fraction = _compute_once(limb, *scales)
    return Threshold(estimate[0], (high << _LIMB) + integer, tuple(fraction))


_Limbs = tuple[Array, Array]  # int32, 24 bits each, the high one first


@jax.jit
def _divide_limb(rest: _Limbs, divisor: _Limbs, inverse: Array) -> tuple[Array, _Limbs]:
    """Shifts the rest by a limb; returns that limb of the quotient, and the new rest."""
    limb = jnp.uint32(0)
    for _ in range(_LIMB // _DIGIT):
        digit = float_bits.quotient_digit(rest[0], inverse)
        low = (rest[1] << _DIGIT) - digit * divisor[1]
        rest = (rest[0] << _DIGIT) - digit * divisor[0] + (low >> 24), low & _24_BITS
        limb = (limb << _DIGIT) + digit.astype(jnp.uint32)
    return limb, rest


def _by_24_bits(value: float_bits.Wide) -> tuple[Array, Array]:
    """48 bits as two int32 limbs."""
    high, low = value
    return ((high << 8) | (low >> 24)).astype(jnp.int32), (low & _24_BITS).astype(jnp.int32)
