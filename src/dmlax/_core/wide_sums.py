"""Sums of two numbers of up to 79 bits each, rounded once: 96-bit integers in 32-bit limbs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from dmlax._core import float_bits

Wider = tuple[Array, Array, Array]  # (high, middle, low) uint32 limbs of a 96-bit integer


def multiply_wider(a: float_bits.Wide, b: Array) -> Wider:
    """The product of a 64-bit integer and a uint32, modulo 2**96."""
    high, low = float_bits.multiply_wide(a[1], b)
    upper, middle = float_bits.multiply_wide(a[0], b)
    middle = middle + high
    return upper + (middle < high).astype(jnp.uint32), middle, low


class Scaled(NamedTuple):
    """A number, `magnitude * 2**exponent` with a sign, of at most 95 bits."""

    negative: Array
    magnitude: Wider
    exponent: Array


def add_scaled(x: Scaled, y: Scaled, dtype: DTypeLike) -> Array:
    """Rounds x + y once, ties to even, to float32 or float16.

    Each has at most 79 bits: so shifted to 95, what the smaller one loses is less than a bit that
    decides the rounding, and one sticky bit stands for it.
    """
    x, y = map(_normalise, (x, y))
    swap = (x.exponent < y.exponent) | (
        (x.exponent == y.exponent) & _is_less(x.magnitude, y.magnitude)
    )
    large, small = (
        Scaled(*jax.tree.map(lambda a, b: jnp.where(swap, a, b), first, second))
        for first, second in ((y, x), (x, y))
    )
    addend = _shift_right_sticky(small.magnitude, large.exponent - small.exponent)
    minus = large.negative ^ small.negative
    # Two's complement: a - b = a + ~b + 1.
    flip = jnp.where(minus, jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
    total = _add_with_carry(
        large.magnitude, (addend[0] ^ flip, addend[1] ^ flip, addend[2] ^ flip), minus
    )
    no_high = total[0] == 0
    high, middle, low = (
        jnp.where(no_high, below, limb)
        for limb, below in zip(total, (*total[1:], jnp.uint32(0)), strict=True)
    )
    exponent = large.exponent + jnp.where(no_high, 0, 32)
    return float_bits.pack(
        large.negative, (high, middle | (low != 0).astype(jnp.uint32)), exponent, dtype
    )


def _normalise(x: Scaled) -> Scaled:
    """Shifts the first bit to bit 94, below a bit for the carry; 0 gets a very low exponent."""
    high, middle, low = x.magnitude
    upper = jnp.where(high != 0, high, jnp.where(middle != 0, middle, low))
    above = jnp.where(high != 0, 0, jnp.where(middle != 0, 32, 64))
    count = above + lax.clz(upper).astype(jnp.int32) - 1
    zero = upper == 0
    shifted = _shift_left(x.magnitude, jnp.where(zero, 0, jnp.maximum(count, 0)))
    return Scaled(x.negative, shifted, jnp.where(zero, -(1 << 20), x.exponent - count))


def _shift_left(x: Wider, count: Array) -> Wider:
    """x << count modulo 2**96, for counts 0..95."""
    for words in (1, 2):
        moved = (*x[1:], jnp.zeros_like(x[0]))
        x = _select(count >= 32 * words, moved, x)
    bits = (count & 31).astype(jnp.uint32)
    high, middle = float_bits.shift_left_wide((x[0], x[1]), bits)
    return high, middle | ((x[2] >> 1) >> (31 - bits)), x[2] << bits


def _shift_right_sticky(x: Wider, count: Array) -> Wider:
    """x >> count, any count from 0 on; the last bit is also set if a bit was lost."""
    count = jnp.minimum(count, 95)
    shifted = x
    for words in (1, 2):
        moved = (jnp.zeros_like(x[0]), *shifted[:2])
        shifted = _select(count >= 32 * words, moved, shifted)
    bits = (count & 31).astype(jnp.uint32)
    high, middle, low = shifted
    shifted = (
        high >> bits,
        (middle >> bits) | ((high << 1) << (31 - bits)),
        (low >> bits) | ((middle << 1) << (31 - bits)),
    )
    restored = _shift_left(shifted, count)
    lost = (x[0] ^ restored[0]) | (x[1] ^ restored[1]) | (x[2] ^ restored[2])
    return shifted[0], shifted[1], shifted[2] | (lost != 0).astype(jnp.uint32)


def _select(condition: Array, a: Wider, b: Wider) -> Wider:
    high, middle, low = (jnp.where(condition, x, y) for x, y in zip(a, b, strict=True))
    return high, middle, low


def _is_less(a: Wider, b: Wider) -> Array:
    lower = (a[1] < b[1]) | ((a[1] == b[1]) & (a[2] < b[2]))
    return (a[0] < b[0]) | ((a[0] == b[0]) & lower)


def _add_with_carry(a: Wider, b: Wider, carry: Array) -> Wider:
    """a + b + carry modulo 2**96."""
    limbs = []
    for left, right in zip(reversed(a), reversed(b), strict=True):
        partial = left + right
        total = partial + carry.astype(jnp.uint32)
        carry = (partial < left) | (total < partial)
        limbs.append(total)
    low, middle, high = limbs
    return high, middle, low
