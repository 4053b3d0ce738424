"""Unevaluated sums of two float32: rounded operations, and what each of them lost.

Every operation is guarded (`_core/ieee.py`), so no compiler contracts or reorders it. Nothing fuses
a product and a sum: the sequences need IEEE's sums, products and quotients alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import float_bits
from dmlax._core.ieee import add, divide, multiply, subtract

FRACTION = 23
LEAST_NORMAL = np.int32(1 << FRACTION)
INFINITY = np.int32(255 << FRACTION)
SIGN = np.int32(-(1 << 31))
_TOP_HALF = np.int32(-(1 << 12))  # 12 bits of a mantissa


Number = Any  # an Array or np.float32


class Pair(NamedTuple):
    """`high + low`; `low` is much smaller."""

    high: Number
    low: Number

    def rounded(self) -> Array:
        """The sum, rounded once."""
        return add(self.high, self.low)

    def plus(self, low: Number) -> "Pair":
        """Adds a small number."""
        return Pair(self.high, add(self.low, low))

    def scaled(self, power: Array | np.float32) -> "Pair":
        """Multiplies by a power of two, or by -1: exactly."""
        return Pair(multiply(self.high, power), multiply(self.low, power))


def constant(high: float, low: float) -> Pair:
    """A number of 48 bits."""
    return Pair(jnp.float32(high), jnp.float32(low))


def bits(x: Array) -> Array:
    """The bits of float32, as int32."""
    return float_bits.bitcast(x, jnp.int32)


def floats(x: Array) -> Array:
    """The float32 of bits in int32."""
    return float_bits.bitcast(x, jnp.float32)


def flush(x: Array) -> Array:
    """A float32 with its sign: 0 if it is subnormal."""
    of = bits(x)
    return floats(jnp.where(of & INFINITY == 0, of & SIGN, of))


def sum_of_ordered(x: Number, y: Number) -> Pair:
    """x + y, if |x| is at least |y| or x is 0."""
    total = add(x, y)
    return Pair(total, subtract(y, subtract(total, x)))


def sum_of(x: Number, y: Number) -> Pair:
    """x + y."""
    total = add(x, y)
    of_y = subtract(total, x)
    return Pair(total, add(subtract(x, subtract(total, of_y)), subtract(y, of_y)))


def product_of(x: Number, y: Number) -> Pair:
    """x * y: the four products of halves of mantissas are exact."""
    product = multiply(x, y)
    (a, b), (c, d) = _halves(x), _halves(y)
    lost = subtract(multiply(a, c), product)
    for part in (multiply(a, d), multiply(b, c), multiply(b, d)):
        lost = add(lost, part)
    return Pair(product, lost)


def _halves(x: Number) -> Pair:
    high = floats(bits(jnp.asarray(x)) & _TOP_HALF)
    return Pair(high, subtract(x, high))


def product_of_pairs(x: Pair, y: Pair) -> Pair:
    """x * y; the product of the low parts is left out."""
    cross = add(multiply(x.high, y.low), multiply(x.low, y.high))
    return product_of(x.high, y.high).plus(cross)


def quotient_of(x: Pair, y: Pair) -> Pair:
    """x / y."""
    quotient = divide(x.high, y.high)
    product = product_of(quotient, y.high)
    rest = add(subtract(subtract(x.high, product.high), product.low), x.low)
    rest = subtract(rest, multiply(quotient, y.low))
    return Pair(quotient, divide(rest, y.high))


def polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """The constant term is first; every product and every sum is rounded."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = add(multiply(value, x), np.float32(coefficient))
    return value


def rounded(x: Array) -> Array:
    """The nearest integer of a number below 2**22, as a float; ties go to the even one."""
    shift = np.float32(1.5 * 2**FRACTION)
    return subtract(add(x, shift), shift)


def scale(x: Array, exponent: Array) -> Array:
    """x * 2**exponent of a positive normal number: 0 below 2**-126, infinity from 2**128 on."""
    of = bits(x) + (exponent << FRACTION)
    return floats(jnp.where(of < LEAST_NORMAL, 0, jnp.minimum(of, INFINITY)))
