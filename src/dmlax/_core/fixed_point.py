"""Requantization by a fixed-point multiplier and a shift, as LiteRT, microcontrollers and NPUs do.

A real factor is `value * 2**exponent / 2**31`. A product of 32-bit integers has 64 bits, which two
words hold here: JAX has no int64 unless x64 is on.
"""

import itertools
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits

Pair: TypeAlias = tuple[Array, Array]
"""64 bits of two's complement: the high word is int32, the low one is uint32."""


def round_half_away(x: np.ndarray | np.floating[Any]) -> np.ndarray:
    """Rounds known floats, halves away from zero; the sum with one half is rounded, too."""
    return np.asarray(np.trunc(x + np.copysign(x.dtype.type(0.5), x)))


class Multiplier(NamedTuple):
    """Known factors, each with its integer of 31 bits and its exponent."""

    value: np.ndarray
    exponent: np.ndarray

    @classmethod
    def of(cls, real: np.ndarray | float) -> "Multiplier":
        """The nearest multipliers; factors below 2**-32 are 0."""
        mantissa, exponent = np.frexp(np.asarray(real, np.float64))
        scaled = mantissa * 2.0**31
        value = round_half_away(scaled).astype(np.int64)
        is_one = value == 1 << 31
        value, exponent = np.where(is_one, value >> 1, value), exponent + is_one
        is_tiny, is_huge = exponent < -31, exponent > 30
        value = np.where(is_tiny, 0, np.where(is_huge, (1 << 31) - 1, value))
        exponent = np.where(is_tiny, 0, np.where(is_huge, 30, exponent))
        return cls(value.astype(np.int32), exponent.astype(np.int32))

    @property
    def left(self) -> np.ndarray:
        """The shift of the factor's integer before the product."""
        shift: np.ndarray = np.maximum(self.exponent, 0).astype(np.int32)
        return shift

    @property
    def right(self) -> np.ndarray:
        """The shift of the product's high word."""
        shift: np.ndarray = np.maximum(-self.exponent, 0).astype(np.int32)
        return shift


def product(x: Array, value: np.ndarray) -> Pair:
    """The 64-bit product of an int32 and a known int32."""
    return product_of(x, jnp.asarray(value, jnp.int32))


def product_of(x: Array, y: Array) -> Pair:
    """The 64-bit product of int32."""
    # Magnitudes of uint32: that of the lowest int32 fits.
    magnitudes = (float_bits.bitcast(jnp.abs(each), jnp.uint32) for each in (x, y))
    high, low = float_bits.multiply_wide(*magnitudes)
    return _negate((float_bits.bitcast(high, jnp.int32), low), (x ^ y) < 0)


def add_pairs(a: Pair, b: Pair) -> Pair:
    """The sum of 64-bit integers, wrapping."""
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]).astype(jnp.int32), low


def widen(x: Array) -> Pair:
    """An int32 with 64 bits."""
    return x >> 31, float_bits.bitcast(x, jnp.uint32)


def shift_pair(x: Pair, count: np.ndarray | int) -> Array:
    """floor(x / 2**count + 1/2) modulo 2**32, for counts of 0 to 62."""
    count = np.asarray(count, np.int64)
    half = np.where(count > 0, 1 << np.maximum(count - 1, 0), 0)
    high, low = add_pairs(x, _words(half))
    part, word = (count & 31).astype(np.uint32), count >= 32
    # A shift by 32 is none in XLA.
    below = (low >> part) | ((float_bits.bitcast(high, jnp.uint32) << 1) << (31 - part))
    above = float_bits.bitcast(high >> part.astype(np.int32), jnp.uint32)
    return float_bits.bitcast(jnp.where(word, above, below), jnp.int32)


def _words(value: np.ndarray) -> Pair:
    high, low = (value >> 32).astype(np.int32), (value & 0xFFFFFFFF).astype(np.uint32)
    return jnp.asarray(high), jnp.asarray(low)


def _high_product(x: Array, by: Multiplier) -> Array:
    """x times the multiplier, before its right shift, rounded half up."""
    return shift_pair(product(x << by.left, by.value), 31)


def divide_half_away(x: Array, count: np.ndarray | int) -> Array:
    """x / 2**count, rounded half away from zero."""
    mask = (np.int64(1) << np.asarray(count, np.int64)) - 1
    rest = x & mask.astype(np.int32)
    threshold = (mask >> 1).astype(np.int32) + (x < 0).astype(jnp.int32)
    return (x >> np.asarray(count, np.int32)) + (rest > threshold).astype(jnp.int32)


def divide_half_up(x: Array, count: np.ndarray) -> Array:
    """x / 2**count, rounded half up; the sum with one half does not overflow."""
    last = np.maximum(count - 1, 0)
    is_shifted = (count > 0).astype(np.int32)
    result: Array = ((x >> last) + is_shifted) >> is_shifted
    return result


def scale_half_away(x: Array, by: Multiplier) -> Array:
    """Rounds twice: the product half up, its shift half away from zero."""
    return divide_half_away(_high_product(x, by), by.right)


def scale_half_up(x: Array, by: Multiplier) -> Array:
    """Rounds twice, half up."""
    return divide_half_up(_high_product(x, by), by.right)


def scale_once(x: Array, by: Multiplier) -> Array:
    """Rounds the exact product once, half up."""
    return shift_pair(product(x, by.value), 31 - by.exponent)


def scale_pair(x: Pair, by: Multiplier) -> Array:
    """Scales a 64-bit integer below 2**47 by a multiplier cut to 15 bits; rounds once, half up."""
    value = by.value.astype(np.int64)
    reduced = np.where(value < 0x7FFF0000, (value + (1 << 15)) >> 16, 0x7FFF)
    # x = high * 2**16 + low; the sum of both products has 64 bits.
    low = float_bits.bitcast(x[1] & 0xFFFF, jnp.int32)
    high = shift_pair((x[0], x[1] & np.uint32(0xFFFF0000)), 16)
    upper = product(high, reduced.astype(np.int32))
    upper = (upper[0] << 16) | float_bits.bitcast(upper[1] >> 16, jnp.int32), upper[1] << 16
    total = add_pairs(upper, product(low, reduced.astype(np.int32)))
    return shift_pair(total, 15 - by.exponent)


def scale_float64(x: Pair, real: np.ndarray) -> Array:
    """x times a factor in float64, rounded half away from zero; of 2**20 or more, any such value.

    The float64 product rounds to a half where it is within half a last bit of one: those sums go
    up, too.

    Args:
      x: integers below 2**53.
      real: the factors, known.
    """
    mantissa, exponent = np.frexp(np.minimum(np.asarray(real, np.float64), 2.0**20))
    count = 53 - exponent.astype(np.int64)  # bits of the product's fraction, 32 or more
    factor = np.where(count > 127, 0, (mantissa * 2.0**53).astype(np.int64))
    count = np.minimum(count, 127)
    negative = x[0] < 0
    size = _negate(x, negative)
    high_factor, low_factor = (float_bits.bitcast(word, jnp.uint32) for word in _words(factor))
    zero = jnp.zeros_like(size[1])
    words = [zero] * 4
    pairs = enumerate((size[1], float_bits.bitcast(size[0], jnp.uint32)))
    for (i, a), (j, b) in itertools.product(pairs, enumerate((low_factor, high_factor))):
        high, low = (jnp.broadcast_to(x, zero.shape) for x in float_bits.multiply_wide(a, b))
        words = _add_words(words, [*[zero] * (i + j), low, high, *[zero] * (2 - i - j)])
    below = jnp.minimum(_above(words, count), _MOST)
    # Below `whole + 1/2` the last bit of a float64 is 2**(log2 - 52), and half of it is one less.
    log2 = jnp.where(below == 0, -2, 30 - lax.clz(2 * below + 1).astype(jnp.int32))
    place = count.astype(np.int32) + log2 - 53
    halves = [_bit(count.astype(np.int32) - 1, i) for i in range(4)]
    words = _add_words(words, [jnp.broadcast_to(word, zero.shape) for word in halves])
    words = _add_words(words, [_bit(place, i) for i in range(4)])
    rounded = float_bits.bitcast(jnp.minimum(_above(words, count), _MOST), jnp.int32)
    return jnp.where(negative, -rounded, rounded)


_MOST = np.uint32(1 << 20)


def _negate(x: Pair, negative: Array) -> Pair:
    """-x where a condition holds."""
    low = jnp.where(negative, jnp.uint32(0) - x[1], x[1])
    high = jnp.where(negative, ~x[0] + (x[1] == 0).astype(jnp.int32), x[0])
    return high, low


def _bit(place: Array | np.ndarray, word: int) -> Array:
    """The word of an integer of which one bit is set; none for a negative place."""
    bits = jnp.uint32(1) << (jnp.asarray(place) & 31).astype(jnp.uint32)
    return jnp.where(jnp.asarray(place) >> 5 == word, bits, jnp.uint32(0))


def _add_words(a: list[Array], b: list[Array]) -> list[Array]:
    """The sum of integers of four words, the lowest first."""
    words, carry = [], jnp.zeros_like(a[0])
    for x, y in zip(a, b, strict=True):
        total = x + y
        over = total < x
        words.append(total + carry)
        carry = (over | (words[-1] < carry)).astype(jnp.uint32)
    return words


def _above(words: list[Array], count: np.ndarray) -> Array:
    """The bits from a place of 32 or more on; more than 32 of them are all ones."""
    part, first = (count & 31).astype(np.uint32), count >> 5
    result, zero = jnp.zeros_like(words[0]), jnp.zeros_like(words[0])
    for i in range(1, 4):
        after = words[i + 1] if i < 3 else zero
        bits = (words[i] >> part) | ((after << 1) << (31 - part))
        lost = (after >> part) != 0
        for word in words[i + 2 :]:
            lost |= word != 0
        result = jnp.where(first == i, jnp.where(lost, jnp.uint32(0xFFFFFFFF), bits), result)
    return result
