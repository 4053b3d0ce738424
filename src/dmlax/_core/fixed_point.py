"""Requantization by a fixed-point multiplier and a shift, as LiteRT, microcontrollers and NPUs do.

A real factor is `value * 2**exponent / 2**31`. A product of 32-bit integers has 64 bits, which two
words hold here: JAX has no int64 unless x64 is on.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits

Requantization = Literal[
    "fixed_point_single", "fixed_point_double", "fixed_point_half_up", "float64"
]
REQUANTIZATIONS = get_args(Requantization)
Pair: TypeAlias = tuple[Array, Array]
"""64 bits of two's complement: the high word is int32, the low one is uint32."""


def round_half_away(x: np.ndarray | np.floating[Any]) -> np.ndarray:
    """Rounds known floats, halves away from zero; the sum with one half is rounded, too."""
    return np.asarray(np.trunc(x + np.copysign(x.dtype.type(0.5), x)))


class Multiplier(NamedTuple):
    """Factors, each with its integer of 31 bits and its exponent; known ones are NumPy's."""

    value: Any
    exponent: Any

    @classmethod
    def of(cls, real: np.ndarray | float) -> "Multiplier":
        """The nearest multipliers; factors below 2**-32 are 0."""
        mantissa, exponent = np.frexp(np.asarray(real, np.float64))
        value = round_half_away(mantissa * 2.0**31).astype(np.int64)
        return cls(*_bounded(np, value, exponent.astype(np.int32)))

    @classmethod
    def of_quotient(cls, a: Array, b: Array, divisor: Array) -> "Multiplier":
        """Those of a float64 `a * b / divisor`, of float32 that the program computes."""
        negative, words, exponent = _divide(a, b, divisor)
        bits = 64 - lax.clz(float_bits.bitcast(words[0], jnp.int32))
        # A float64 rounds to a half of an integer from half its last bit below on.
        for place in (bits - 32, bits - 54):
            words = _add_words(words, [_bit(place, 1), _bit(place, 0)])
        count = (bits - 31).astype(jnp.uint32)
        value = (words[0] << (32 - count)) | (words[1] >> count)
        is_one = value >> 31 != 0
        value = float_bits.bitcast(jnp.where(is_one, value >> 1, value), jnp.int32)
        value = jnp.where(negative, -value, value)
        return cls(*_bounded(jnp, value, exponent + bits + is_one.astype(jnp.int32)))

    def divided(self, count: Any) -> "Multiplier":
        """The multipliers over a count of 1 to 2**30, cut to integers, as LiteRT's mean does."""
        if isinstance(count, int):
            shift = np.minimum(count.bit_length() - 1, 31 + self.exponent)
            cut = np.sign(self.value) * ((np.abs(self.value.astype(np.int64)) << shift) // count)
            return Multiplier(cut.astype(np.int32), (self.exponent - shift).astype(np.int32))
        value = float_bits.bitcast(jnp.abs(self.value), jnp.uint32)
        shift = jnp.minimum(31 - lax.clz(count), 31 + self.exponent)
        left, divisor = shift.astype(jnp.uint32), count.astype(jnp.uint32)
        high, low = (value >> 1) >> (31 - left), value << left

        def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            place = 63 - i
            word = jnp.where(place < 32, low, high) >> (place & 31).astype(jnp.uint32)
            rest = 2 * state[0] + (word & 1)
            digit = (rest >= divisor).astype(jnp.uint32)
            return rest - digit * divisor, (state[1] << 1) | digit

        zero = (low ^ low) + (divisor ^ divisor)
        _, quotient = lax.fori_loop(0, 64, step, (zero, zero))
        cut = float_bits.bitcast(quotient, jnp.int32)
        return Multiplier(jnp.where(self.value < 0, -cut, cut), self.exponent - shift)

    @property
    def left(self) -> Any:
        """The shift of the factor's integer before the product."""
        return self.exponent.clip(0)

    @property
    def right(self) -> Any:
        """The shift of the product's high word."""
        return (-self.exponent).clip(0)


def _bounded(numbers: Any, value: Any, exponent: Any) -> tuple[Any, Any]:
    """An integer of at most 31 bits and an exponent from -31 to 30."""
    if numbers is np:
        is_one = abs(value) == 1 << 31
        value, exponent = np.where(is_one, value >> 1, value), exponent + is_one
    is_tiny, is_huge = exponent < -31, exponent > 30
    most = numbers.where(value < 0, 1 - 2**31, 2**31 - 1)
    value = numbers.where(is_tiny, 0, numbers.where(is_huge, most, value))
    exponent = numbers.where(is_tiny, 0, numbers.where(is_huge, 30, exponent))
    return value.astype(np.int32), exponent.astype(np.int32)


class Float64(NamedTuple):
    """Factors `(high * 2**32 + low) * 2**(exponent - 53)`; those of 2**20 or more are any such."""

    negative: Any
    high: Any
    low: Any
    exponent: Any

    @classmethod
    def of(cls, real: np.ndarray | float) -> "Float64":
        """The words of known factors."""
        mantissa, exponent = np.frexp(np.asarray(real, np.float64))
        value = np.abs(mantissa * 2.0**53).astype(np.int64)
        high, low = (value >> 32).astype(np.uint32), (value & 0xFFFFFFFF).astype(np.uint32)
        return cls(mantissa < 0, high, low, np.minimum(exponent, 21).astype(np.int32))

    @classmethod
    def of_quotient(cls, a: Array, b: Array, divisor: Array) -> "Float64":
        """`a * b / divisor` of float32 that the program computes."""
        negative, words, exponent = _divide(a, b, divisor)
        bits = 64 - lax.clz(float_bits.bitcast(words[0], jnp.int32))
        count = (bits - 53).astype(jnp.uint32)
        half = (jnp.uint32(1) << (count - 1)) - 1 + ((words[1] >> count) & 1)
        high, low = _add_words(words, [jnp.zeros_like(half), half])
        low = (high << (32 - count)) | (low >> count)
        return cls(negative, high >> count, low, jnp.minimum(exponent + bits, 21))


def _divide(a: Array, b: Array, divisor: Array) -> tuple[Array, list[Array], Array]:
    """The sign of a quotient; its words, of 56 to 58 bits; their exponent.

    The last bit says whether there are more.
    """
    x, y, d = map(float_bits.unpack, jnp.broadcast_arrays(a, b, divisor))
    high, low = float_bits.multiply_wide(x.mantissa, y.mantissa)

    def step(i: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rest, above, below = state
        place = 47 - i
        word = jnp.where(place < 32, low, high) >> (place & 31).astype(jnp.uint32)
        rest = 2 * rest + jnp.where(place < 0, 0, word & 1)
        digit = (rest >= d.mantissa).astype(jnp.uint32)
        return rest - digit * d.mantissa, (above << 1) | (below >> 31), (below << 1) | digit

    zero = (high ^ high) + (d.mantissa ^ d.mantissa)
    rest, above, below = lax.fori_loop(0, 80, step, (zero, zero, zero))
    words = [(above << 1) | (below >> 31), (below << 1) | (rest != 0).astype(jnp.uint32)]
    negative = x.negative ^ y.negative ^ d.negative
    return negative, words, x.exponent + y.exponent - d.exponent - 33


def product(x: Array, value: Any) -> Pair:
    """The 64-bit product of an int32 and another, which may be known."""
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


def _half(count: Array) -> Pair:
    """2**count / 2, of 64 bits; 0 for a count of 0."""
    return float_bits.bitcast(_bit(count - 1, 1), jnp.int32), _bit(count - 1, 0)


def shift_pair(x: Pair, count: Any) -> Array:
    """floor(x / 2**count + 1/2) modulo 2**32, for counts of 0 to 62."""
    count = jnp.asarray(count, jnp.int32)
    high, low = add_pairs(x, _half(count))
    part = (count & 31).astype(jnp.uint32)
    # A shift by 32 is none in XLA.
    below = (low >> part) | ((float_bits.bitcast(high, jnp.uint32) << 1) << (31 - part))
    above = float_bits.bitcast(high >> part.astype(jnp.int32), jnp.uint32)
    return float_bits.bitcast(jnp.where(count >= 32, above, below), jnp.int32)


def _high_product(x: Array, by: Multiplier) -> Array:
    """x times the multiplier, before its right shift, rounded half up."""
    return shift_pair(product(x << by.left, by.value), 31)


def divide_half_away(x: Array, count: Any) -> Array:
    """x / 2**count, rounded half away from zero."""
    count = jnp.asarray(count, jnp.int32)
    mask = float_bits.bitcast((jnp.uint32(1) << count.astype(jnp.uint32)) - 1, jnp.int32)
    up = (x & mask) > (mask >> 1) + (x < 0).astype(jnp.int32)
    result: Array = (x >> count) + up.astype(jnp.int32)
    return result


def divide_half_up(x: Array, count: Any) -> Array:
    """x / 2**count, rounded half up; the sum with one half does not overflow."""
    is_shifted = jnp.minimum(count, 1)
    result: Array = ((x >> (count - is_shifted)) + is_shifted) >> is_shifted
    return result


def scale_half_away(x: Array, by: Multiplier) -> Array:
    """Rounds twice: the product half up, its shift half away from zero."""
    return divide_half_away(_high_product(x, by), by.right)


def scale_half_up(x: Array, by: Multiplier) -> Array:
    """Rounds twice, half up."""
    return divide_half_up(_high_product(x, by), by.right)


def scale_once(x: Array, by: Multiplier) -> Array:
    """Rounds the exact product once, half up; beyond int32 it saturates."""
    count, exact = jnp.asarray(31 - by.exponent, jnp.int32), product(x, by.value)
    rounded = shift_pair(exact, count)
    high, _ = add_pairs(exact, _half(count))
    # A product, below 2**62, over 2**32 or more is an int32.
    is_beyond = (count < 32) & (high >> jnp.minimum(count, 31) != rounded >> 31)
    return jnp.where(is_beyond, (high >> 31) ^ (2**31 - 1), rounded)


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


def scale_float64(x: Pair, by: Float64) -> Array:
    """x times a factor in float64, rounded half away from zero; of 2**20 or more, any such value.

    The float64 product rounds to a half where it is within half a last bit of one: those sums go
    up, too. x is an integer below 2**53.
    """
    count = jnp.minimum(53 - by.exponent, 127)  # bits of the product's fraction, 32 or more
    negative = (x[0] < 0) ^ by.negative
    size = _negate(x, x[0] < 0)
    is_tiny = 53 - by.exponent > 127
    low_factor, high_factor = (jnp.where(is_tiny, 0, word) for word in (by.low, by.high))
    zero = jnp.zeros_like(size[1])
    words = [zero] * 4
    pairs = enumerate((size[1], float_bits.bitcast(size[0], jnp.uint32)))
    for (i, a), (j, b) in itertools.product(pairs, enumerate((low_factor, high_factor))):
        high, low = (jnp.broadcast_to(x, zero.shape) for x in float_bits.multiply_wide(a, b))
        words = _add_words([*[zero] * (2 - i - j), high, low, *[zero] * (i + j)], words)
    below = jnp.minimum(_above(words, count), _MOST)
    # Below `whole + 1/2` the last bit of a float64 is 2**(log2 - 52), and half of it is one less.
    log2 = jnp.where(below == 0, -2, 30 - lax.clz(2 * below + 1).astype(jnp.int32))
    for place in (count - 1, count + log2 - 53):
        bits = (jnp.broadcast_to(_bit(place, i), zero.shape) for i in range(3, -1, -1))
        words = _add_words(words, [*bits])
    rounded = float_bits.bitcast(jnp.minimum(_above(words, count), _MOST), jnp.int32)
    return jnp.where(negative, -rounded, rounded)


_MOST = np.uint32(1 << 20)


def _negate(x: Pair, negative: Array) -> Pair:
    """-x where a condition holds."""
    low = jnp.where(negative, jnp.uint32(0) - x[1], x[1])
    high = jnp.where(negative, ~x[0] + (x[1] == 0).astype(jnp.int32), x[0])
    return high, low


def _bit(place: Any, word: int) -> Array:
    """The word of an integer of which one bit is set; none for a negative place."""
    bits = jnp.uint32(1) << (jnp.asarray(place) & 31).astype(jnp.uint32)
    return jnp.where(jnp.asarray(place) >> 5 == word, bits, jnp.uint32(0))


def _add_words(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """The sum of integers of as many words, the highest first."""
    words, carry = list[Array](), jnp.zeros_like(a[-1])
    for x, y in zip(reversed(a), reversed(b), strict=True):
        total = x + y
        over = total < x
        words.insert(0, total + carry)
        carry = (over | (words[0] < carry)).astype(jnp.uint32)
    return words


def _above(words: Sequence[Array], count: Array) -> Array:
    """The bits of four words from a place of 32 or more on; more than 32 of them are all ones."""
    part, first = (count & 31).astype(jnp.uint32), count >> 5
    result, zero = jnp.zeros_like(words[0]), jnp.zeros_like(words[0])
    lowest_first = words[::-1]
    for i in range(1, 4):
        after = lowest_first[i + 1] if i < 3 else zero
        bits = (lowest_first[i] >> part) | ((after << 1) << (31 - part))
        lost = (after >> part) != 0
        for word in lowest_first[i + 2 :]:
            lost |= word != 0
        result = jnp.where(first == i, jnp.where(lost, jnp.uint32(0xFFFFFFFF), bits), result)
    return result


class _Mode(NamedTuple):
    """A requantization: the kind of its factors, and the product with one, an integer."""

    factors: type[Multiplier] | type[Float64]
    scale: Callable[[Array, Any], Array]


MODES: dict[Requantization, _Mode] = {
    "fixed_point_single": _Mode(Multiplier, scale_once),
    "fixed_point_double": _Mode(Multiplier, scale_half_away),
    "fixed_point_half_up": _Mode(Multiplier, scale_half_up),
    "float64": _Mode(Float64, lambda x, by: scale_float64(widen(x), by)),
}
