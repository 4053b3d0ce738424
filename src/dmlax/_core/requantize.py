"""The only rounding and saturation: exact by integer comparison, or a runtime's formula.

Exact means: `|acc| * scale` is truncated by a float estimate to `q`, and `q` becomes `q + 1` if
`|acc|` exceeds `(2 q + 1) / (2 scale)`. That threshold comes from the reciprocal of the scale in
fixed point, in 32-bit limbs, so a tie is representable and no float operation decides anything.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import compat, fixed_point, float_bits, wide_sums
from dmlax._core.arguments import Rules
from dmlax._core.fixed_point import REQUANTIZATIONS
from dmlax._core.fixed_point import Requantization as Requantization

Arithmetic = Literal["exact", "float32"]
ARITHMETICS = get_args(Arithmetic)

_LIMB = 21  # limb width: a limb times (2 * 255 + 1) fits 32 bits
_DIGIT = 7  # digit width of a long division: three to a limb
_LIMBS = 5  # the long division has two for the integer part, three for the fraction
_24_BITS = (1 << 24) - 1
_TIE_TO_EVEN = 1 << 12  # units of 2**-63: above the truncation error, below the nearest non-tie
_SATURATED = np.uint32(1 << 31)  # no |accumulator| exceeds it
MAGNITUDE_LIMIT = 255  # |round(v)| of this or more saturates whatever the zero point


class Threshold(NamedTuple):
    """`1 / (2 * |scale|)` in fixed point, the largest value below the true one, and an estimate."""

    estimate: Array  # float32 scale with its sign, clipped so that products stay finite
    integer: Array  # uint32, saturated
    fraction: tuple[Array, Array, Array]  # 21-bit limbs, highest first


Factors = Threshold | fixed_point.Multiplier | fixed_point.Float64
"""Factors of known scales: a threshold with "exact", else those of the requantization."""


def requantizer(
    input_scale: Array,
    filter_scale: Array,
    output_scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
    bias: Array | None = None,
    threshold: Factors | None = None,
    requantization: Requantization | None = None,
) -> Callable[[Array], Array]:
    """Prepares accumulator -> clamp(round((accumulator + bias) * sx * sw / sy) + zero_point).

    Args:
      input_scale: float32; it and the next three broadcast to the int32 accumulator.
      filter_scale: float32.
      output_scale: float32.
      zero_point: of `dtype`, or None for 0.
      dtype: int8 or uint8.
      arithmetic: "exact", or "float32" for ONNX Runtime's bits.
      bias: int32, added without wrapping; or None for 0.
      threshold: `factors_of_constants` of the scales, halved if there is a bias; or None.
      requantization: a product with fixed-point or float64 factors instead, whose bias wraps.
    """
    if requantization is not None:
        factors, scale = fixed_point.MODES[requantization]
        by = threshold or factors.of_quotient(input_scale, filter_scale, output_scale)

        def finish(accumulator: Array) -> Array:
            sums = accumulator if bias is None else accumulator + bias
            rounded = jnp.clip(scale(sums, by), -2 * MAGNITUDE_LIMIT, 2 * MAGNITUDE_LIMIT)
            return saturate(rounded, zero_point, dtype)

        return finish
    assert threshold is None or isinstance(threshold, Threshold)
    scales = jnp.broadcast_arrays(input_scale, filter_scale, output_scale)
    if arithmetic == "float32":
        factor = multiplier(*scales)
        return lambda accumulator: quantize_float32(
            _to_float32(accumulator, bias) * factor, zero_point, dtype
        )
    if bias is not None:
        halves = threshold or _threshold(*scales, halved=True)
        return lambda accumulator: saturate(
            _round_sum_by_threshold(_add_wide(accumulator, bias), halves), zero_point, dtype
        )
    whole = threshold or _threshold(*scales)
    return lambda accumulator: saturate(_round_by_threshold(accumulator, whole), zero_point, dtype)


def check_modes(
    rules: Rules,
    arithmetic: object,
    requantization: object,
    known: Sequence[str] = REQUANTIZATIONS,
) -> None:
    """Checks the options that say how an operator rounds."""
    rules.expect_choice("arithmetic", arithmetic, ARITHMETICS)
    if requantization is not None:
        rules.expect_choice("requantization", requantization, known)
        text = f"is {requantization!r} beside arithmetic {arithmetic!r}: leave that out"
        rules.expect(arithmetic == "exact", "option", "requantization", text)


def scale_sums(
    sums: Array,
    a_scale: Array,
    b_scale: Array,
    bias: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """sums * a_scale * b_scale + bias as a real number, rounded once to float32 or float16.

    In "float32" each of the four operations is rounded, as ONNX Runtime does. NaN and infinities
    of the bias are kept, and a real 0 is +0.

    Args:
      sums: int32.
      a_scale: float32; it, the next one and the bias broadcast to the sums.
      b_scale: float32.
      bias: float32 or float16, or None for 0.
      dtype: float32 or float16.
      arithmetic: "exact", or "float32" for ONNX Runtime's bits.
    """
    if arithmetic == "float32":
        scale = float_bits.multiply(a_scale, b_scale)
        product = _multiply_float32(sums.astype(jnp.float32), scale)
        result = product if bias is None else float_bits.add(product, bias.astype(jnp.float32))
        return result.astype(dtype)
    a, b = float_bits.unpack(a_scale), float_bits.unpack(b_scale)
    negative = (sums < 0) ^ a.negative ^ b.negative
    magnitude = float_bits.bitcast(jnp.abs(sums), jnp.uint32)  # |INT_MIN| fits
    scale_product = float_bits.multiply_wide(a.mantissa, b.mantissa)
    wide = wide_sums.multiply_wider(scale_product, magnitude)
    exact = wide_sums.Scaled(negative, wide, a.exponent + b.exponent)
    zero = jnp.uint32(0)
    if bias is None:
        addend = wide_sums.Scaled(jnp.bool_(False), (zero, zero, zero), jnp.int32(0))
        return wide_sums.add_scaled(exact, addend, dtype)
    c = float_bits.unpack(jnp.where(jnp.isfinite(bias), bias, 0))
    result = wide_sums.add_scaled(
        exact, wide_sums.Scaled(c.negative, (zero, zero, c.mantissa), c.exponent), dtype
    )
    special = float_bits.is_nan(bias) | float_bits.is_infinite(bias)
    return jnp.where(special, bias.astype(dtype), result)


def _multiply_float32(x: Array, scale: Array) -> Array:
    """The IEEE float32 product of an integer's float and a scale that may have overflowed."""
    finite = float_bits.multiply(x, scale)
    sign = float_bits.bitcast(float_bits.raw_bits(scale) & jnp.uint32(1 << 31), jnp.float32)
    return jnp.where(float_bits.is_infinite(scale), x * scale, jnp.where(x == 0, sign, finite))


@compat.shared("dtype", "arithmetic")
def quantize(
    x: Array, scale: Array, zero_point: Array | None, dtype: DTypeLike, arithmetic: Arithmetic
) -> Array:
    """clamp(round(x / scale) + zero_point) for float32, float16 or int32 `x`.

    The output has 8 bits, of floats also 16.
    """
    if arithmetic == "float32":
        x, scale = x.astype(jnp.float32), scale.astype(jnp.float32)
    if x.dtype == jnp.int32:
        one = jnp.float32(1)
        return requantizer(one, one, scale, zero_point, dtype, arithmetic)(x)
    limit = (1 << 8 * np.dtype(dtype).itemsize) - 1
    rounded = _round_quotient(x, scale, arithmetic, limit)
    rounded = jnp.where(float_bits.is_nan(x), -2 * limit, rounded)
    return saturate(rounded, zero_point, dtype)


def quantize_average(
    total: Array,
    count: Array,
    input_scale: Array,
    output_scale: Array,
    zero_point: Array | None,
    dtype: DTypeLike,
    arithmetic: Arithmetic,
) -> Array:
    """clamp(round(total * input_scale / (output_scale * count)) + zero_point).

    Args:
      total: int32, the sum of `count` differences of 8-bit values; 0 where there are none.
      count: int32, at most (2**31 - 1) // 255; it and the next three broadcast to the total.
      input_scale: float32.
      output_scale: float32.
      zero_point: of `dtype`, or None for 0.
      dtype: int8 or uint8.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's global average.
    """
    if arithmetic == "float32":
        divisor = float_bits.multiply(output_scale, count.astype(jnp.float32))
        multiplier = float_bits.divide(input_scale, divisor)
        return quantize_float32(total.astype(jnp.float32) * multiplier, zero_point, dtype)
    return saturate(_round_average(total, count, input_scale, output_scale), zero_point, dtype)


def dequantize(
    x: Array, scale: Array, zero_point: Array | None, dtype: DTypeLike | None = None
) -> Array:
    """(x - zero_point) * scale as a real number, rounded once to the scale's dtype, NaN kept.

    The scale is float32 or float16, and another `dtype` may be named.
    """
    dtype = scale.dtype if dtype is None else dtype
    zero = jnp.zeros((), x.dtype) if zero_point is None else zero_point
    below = x < zero
    difference = jnp.where(below, _unsigned(zero) - _unsigned(x), _unsigned(x) - _unsigned(zero))
    factor = float_bits.unpack(scale)
    product = float_bits.multiply_wide(difference, factor.mantissa)
    result = float_bits.pack(below ^ factor.negative, product, factor.exponent, dtype)
    return jnp.where(float_bits.is_nan(scale), scale.astype(dtype), result)


def _unsigned(x: Array) -> Array:
    """uint32 congruent to `x` modulo 2**32."""
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return float_bits.bitcast(x.astype(jnp.int32), jnp.uint32)
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


def quantize_float32(value: Array, zero_point: Array | None, dtype: DTypeLike) -> Array:
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


def _round_quotient(x: Array, scale: Array, arithmetic: Arithmetic, limit: int) -> Array:
    """round(x / scale), ties to even, for finite floats; beyond a limit any value from it on.

    In "float32" the quotient is first rounded to float32: near a tie it is one.
    """
    a, s = float_bits.split(x), float_bits.unpack(scale)
    # 2 * |x / scale| = (a.mantissa << shift) / s.mantissa; below 512 the shift is 33 at most, of
    # the smallest float16. A shift by 32 or more gives 0, which is right modulo 2**32.
    shift = jnp.clip(a.exponent - s.exponent + 1, -1, 48)
    ratio = a.mantissa.astype(jnp.float32) * (1 / s.mantissa.astype(jnp.float32))
    estimate = jnp.where(
        float_bits.is_infinite(x), jnp.float32(jnp.inf), ratio * float_bits.power_of_two(shift - 1)
    )
    below = jnp.minimum(estimate, limit).astype(jnp.int32)
    # The difference is below 2**25, so that arithmetic modulo 2**32 gets it right.
    doubled = a.mantissa << jnp.maximum(shift, 0).astype(jnp.uint32)
    odd = (2 * below + 1).astype(jnp.uint32)
    excess = float_bits.bitcast(doubled - s.mantissa * odd, jnp.int32)
    tie = jnp.int32(0)  # the greatest excess, either way, of a tie
    if arithmetic == "float32":  # half the last bit of odd / 2, which no quotient is away from it
        tie = ((s.mantissa - 1) >> (lax.clz(odd) - 7)).astype(jnp.int32)
    up = (shift >= 0) & (excess > jnp.where(below & 1 == 1, ~tie, tie))
    rounded = below + up.astype(jnp.int32)
    return jnp.where(a.negative ^ s.negative, -rounded, rounded)


def _round_average(total: Array, count: Array, input_scale: Array, output_scale: Array) -> Array:
    """round(total * input_scale / (output_scale * count)); above 255, 255."""
    x, y = float_bits.unpack(input_scale), float_bits.unpack(output_scale)
    magnitude = jnp.abs(total).astype(jnp.uint32)
    divisor = jnp.maximum(count, 1).astype(jnp.uint32)  # without elements the total is 0
    # The quotient is dividend * 2**exponent / (y.mantissa * divisor); both are below 2**56.
    exponent = jnp.clip(x.exponent - y.exponent, -64, 64)
    dividend = float_bits.multiply_wide(magnitude, x.mantissa)
    ratio = x.mantissa.astype(jnp.float32) / y.mantissa.astype(jnp.float32)
    quotient = magnitude.astype(jnp.float32) / divisor.astype(jnp.float32) * ratio
    estimate = quotient * float_bits.power_of_two(exponent)
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT - 1).astype(jnp.uint32)
    # Twice the quotient is compared with 2 * below + 1, in units that leave the last bit free.
    middle = float_bits.multiply_wide((2 * below + 1) * divisor, y.mantissa)
    one = jnp.uint32(1)
    left = float_bits.shift_right_sticky(float_bits.shift_left_wide(dividend, one), -1 - exponent)
    right = float_bits.shift_right_sticky(float_bits.shift_left_wide(middle, one), exponent + 1)
    above = (left[0] > right[0]) | ((left[0] == right[0]) & (left[1] > right[1]))
    is_tie = (left[0] == right[0]) & (left[1] == right[1])
    rounded = (below + (above | (is_tie & (below & 1 == 1))).astype(jnp.uint32)).astype(jnp.int32)
    return jnp.where((total < 0) ^ x.negative ^ y.negative, -rounded, rounded)


def divide_range(low: Array, high: Array) -> Array:
    """(high - low) / 255 as a real number, rounded once to float32, of low <= 0 <= high."""
    below, above = (
        float_bits.addend(part)._replace(negative=jnp.zeros_like(part.negative))
        for part in map(float_bits.unpack, (low, high))
    )
    total = float_bits.add_wide(below, above)
    # Long division by 16 bits; a lost bit made the dividend odd, which its quotient shows.
    rest, digits = jnp.uint32(0), []
    for word in total.magnitude:
        for half in (word >> 16, word & 0xFFFF):
            digits.append(((rest << 16) | half) // np.uint32(255))
            rest = ((rest << 16) | half) % np.uint32(255)
    quotient = (digits[0] << 16) | digits[1], (digits[2] << 16) | digits[3]
    high_word, low_word = float_bits.shift_left_wide(quotient, jnp.uint32(1))
    quotient = high_word, low_word | (rest != 0).astype(jnp.uint32)
    return float_bits.pack(
        jnp.zeros_like(total.negative), quotient, total.exponent - 1, jnp.float32
    )


def _round_by_threshold(accumulator: Array, threshold: Threshold) -> Array:
    """round(accumulator * scale), ties to even; above 255, any value above 255."""
    magnitude = float_bits.bitcast(jnp.abs(accumulator), jnp.uint32)  # |INT_MIN| fits
    estimate = magnitude.astype(jnp.float32) * jnp.abs(threshold.estimate)
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT).astype(jnp.int32).astype(jnp.uint32)
    limit, _ = _multiply_threshold(threshold, below)
    rounded = (below + (magnitude > limit).astype(jnp.uint32)).astype(jnp.int32)
    sign = (accumulator ^ float_bits.bitcast(threshold.estimate, jnp.int32)) >> 31
    return (rounded ^ sign) - sign


def _multiply_threshold(threshold: Threshold, below: Array) -> tuple[Array, Array]:
    """`(2 * below + 1) * threshold`: its integer, and the first 21 bits of its fraction."""
    twice = 2 * below + 1
    high, middle, low = threshold.fraction
    carry = low * twice + ((~below & 1) * _TIE_TO_EVEN)
    carry = middle * twice + (carry >> _LIMB)
    carry = high * twice + (carry >> _LIMB)
    return threshold.integer * twice + (carry >> _LIMB), carry


class _Sum(NamedTuple):
    """A sum of two int32, whose magnitude is `2 * half + odd`, at most 2**32."""

    negative: Array
    half: Array  # uint32
    odd: Array  # uint32, 0 or 1


def _add_wide(accumulator: Array, bias: Array) -> _Sum:
    wrapped = accumulator + bias
    overflows = ((accumulator ^ wrapped) & (bias ^ wrapped)) < 0
    negative = jnp.where(overflows, accumulator, wrapped) < 0
    bits = float_bits.bitcast(jnp.where(negative, -wrapped, wrapped), jnp.uint32)
    carry = (overflows & (bits == 0)).astype(jnp.uint32)  # -2**32
    return _Sum(negative, (bits >> 1) | (carry << 31), bits & 1)


def _to_float32(accumulator: Array, bias: Array | None) -> Array:
    """accumulator + bias, rounded once."""
    if bias is None:
        return accumulator.astype(jnp.float32)
    total = _add_wide(accumulator, bias)
    magnitude = total.half >> 31, (total.half << 1) | total.odd
    return float_bits.pack(
        total.negative, magnitude, jnp.zeros_like(accumulator + bias), jnp.float32
    )


def _round_sum_by_threshold(total: _Sum, threshold: Threshold) -> Array:
    """Round as `_round_by_threshold` does, by the threshold and estimate of the sum's half."""
    size = total.half.astype(jnp.float32) + total.odd.astype(jnp.float32) * 0.5
    estimate = size * jnp.abs(threshold.estimate)
    below = jnp.minimum(estimate, MAGNITUDE_LIMIT).astype(jnp.int32).astype(jnp.uint32)
    limit, rest = _multiply_threshold(threshold, below)
    next_bit = (rest >> (_LIMB - 1)) & 1
    above = (total.half > limit) | ((total.half == limit) & (total.odd > next_bit))
    rounded = (below + above.astype(jnp.uint32)).astype(jnp.int32)
    negative = total.negative ^ (float_bits.bitcast(threshold.estimate, jnp.int32) < 0)
    return jnp.where(negative, -rounded, rounded)


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
    return float_bits.bitcast(bits, jnp.float32)


@functools.partial(jax.jit, static_argnames="halved")
def _threshold(
    input_scale: Array, filter_scale: Array, output_scale: Array, halved: bool = False
) -> Threshold:
    """Divides S by 2 * P, P the product of two mantissas: long division, 7 bits a step.

    If halved, of an accumulator's half: the threshold is half of it, the estimate is twice it.

    The result has a row for each limb, and every row divides from the start to its own limb: one
    kernel computes them all. The rest stays positive, so the digits are strictly below the
    quotient.
    """
    scales = tuple(scale[None] for scale in (input_scale, filter_scale, output_scale))
    a, b, s = map(float_bits.unpack, scales)
    # The reciprocal is S * 2**23 / P * 2**exponent, that quotient in (1/4, 2). Beyond the clip
    # every accumulator saturates, or none reaches one half.
    exponent = s.exponent - a.exponent - b.exponent - (25 if halved else 24)
    exponent = jnp.clip(exponent, -2 * _LIMB, 33)
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
    high, integer, first, second, third = _compute_once(limb, *scales)
    return Threshold(estimate[0], (high << _LIMB) + integer, (first, second, third))


def factors_of_constants(
    scales: Sequence[Array],
    input: Array,
    arithmetic: Arithmetic,
    halved: bool = False,
    requantization: Requantization | None = None,
) -> Factors | None:
    """`_threshold`, or a mode's, of scales that a traced input's program holds; None of others.

    XLA would compile a long division, and repeat it for every element along the last axis.
    """
    known = all(compat.is_constant_of_trace(scale, input) for scale in scales)
    if arithmetic != "exact" or not known:
        return None
    shapes = [scale.shape for scale in scales]
    if math.prod(np.broadcast_shapes(*shapes)) > max(map(math.prod, shapes)):
        return None  # one per row and one per column
    a, b, s = np.broadcast_arrays(*(np.asarray(scale, np.float64) for scale in scales))
    if not all(np.isfinite(scale).all() and scale.all() for scale in (a, b, s)):
        return None
    if requantization is not None:
        return fixed_point.MODES[requantization].factors.of(a * b / s)
    ratio = a * b / s * (2 if halved else 1)
    # At ratios beyond, all or no accumulators reach one half.
    size = np.clip(np.abs(ratio), 2.0**-42, 2.0**42)
    triples = zip(a.flat, b.flat, s.flat, strict=True)
    below = [_reciprocal_below(*triple, halved) for triple in triples]

    def words(start: int, bits: int) -> Any:
        digits = [(value >> start) & ((1 << bits) - 1) for value in below]
        return np.array(digits, np.uint32).reshape(a.shape)

    fraction = words(2 * _LIMB, _LIMB), words(_LIMB, _LIMB), words(0, _LIMB)
    estimate: Any = np.copysign(size, ratio).astype(np.float32)
    return Threshold(estimate, words(3 * _LIMB, 32), fraction)


_STEEP = 2.0**-21  # a quarter of 2**31 of its products are 2 * 256, which saturates


def saturates_beyond_int32(scales: Sequence[Array], input: Array) -> bool:
    """True for known scales by which every sum of 2**29 or more saturates, in any arithmetic."""
    if not all(compat.is_constant_of_trace(scale, input) for scale in scales):
        return False
    with np.errstate(all="ignore"):
        a, b, s = (np.asarray(scale, np.float64) for scale in scales)
        if a.size > 1 and b.size > 1:
            return False  # one per row and one per column
        product = np.abs(a * b)
        ratio = product / np.abs(s)
    within = [(2.0**-100, 2.0**100, product), (_STEEP, 2.0**100, ratio)]
    return all(bool(((low <= x) & (x <= high)).all()) for low, high, x in within)


def _reciprocal_below(a: float, b: float, s: float, halved: bool) -> int:
    """The greatest multiple of 2**-63 below |s / (2 * a * b)|, in that unit; saturated."""
    (a0, a1), (b0, b1), (s0, s1) = (abs(scale).as_integer_ratio() for scale in (a, b, s))
    below = ((s0 * a1 * b1 << (3 * _LIMB)) - 1) // (s1 * a0 * b0 << (2 if halved else 1))
    return min(below, int(_SATURATED) << (3 * _LIMB))


_Limbs = tuple[Array, Array]  # int32 of 24 bits, the high one first


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
