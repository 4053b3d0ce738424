"""Exponentials, sigmoids and reciprocals in fixed point, as microcontrollers compute them.

A number of `bits` bits of which `k` are before the point, besides the sign, is the real number
`x / 2**(bits - 1 - k)`. Tensors are int32 for both widths.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from dmlax._core import fixed_point

_EXPONENTIALS = {  # exp(-2**power) with 31 bits behind the point
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
_EXP_OF_AN_EIGHTH = 1895147668
_THIRD = 715827883
_48_OVER_17, _32_OVER_17 = 1515870810, -1010580540  # fixed-point numbers of 29 fractional bits


@dataclass(frozen=True)
class FixedFunctions:
    """The functions for numbers of 16 or 32 bits."""

    bits: int

    @property
    def one(self) -> int:
        """The greatest number, which stands for 1 without bits before the point."""
        return (1 << (self.bits - 1)) - 1

    def _constant(self, value: int) -> int:
        """A constant of 32 bits, rounded to the width, halves away from zero."""
        if self.bits == 32:
            return value
        magnitude = (abs(value) + (1 << 15)) >> 16
        return magnitude if value >= 0 else -magnitude

    def multiply(self, x: Array, y: Array | int) -> Array:
        """The upper half of twice the product, rounded half up."""
        if self.bits == 16:
            return (x * y + (1 << 14)) >> 15
        return fixed_point.shift_pair(fixed_point.product_of(x, jnp.asarray(y, jnp.int32)), 31)

    def shift_left(self, x: Array, count: int) -> Array:
        """x * 2**count, saturated."""
        low, high = -self.one - 1, self.one
        shifted = x << count
        return jnp.where(x > high >> count, high, jnp.where(x < low >> count, low, shifted))

    def exp(self, x: Array, k: int) -> Array:
        """exp of a number up to 0 with `k` bits before the point; the result has none."""
        fraction = self.bits - 1 - k
        quarter = 1 << (fraction - 2)
        rest = (x & (quarter - 1)) - quarter
        result = self._exp_of_a_quarter(self.shift_left(rest, k))
        whole = rest - x
        for power, factor in _EXPONENTIALS.items():
            if k > power:
                is_set = whole & (1 << (fraction + power)) != 0
                product = self.multiply(result, self._constant(factor))
                result = jnp.where(is_set, product, result)
        if k > 5:
            result = jnp.where(x < -(1 << (self.bits + 4 - k)), 0, result)
        return jnp.where(x == 0, self.one, result)

    def _exp_of_a_quarter(self, x: Array) -> Array:
        """exp of a number in [-1/4, 0), by five terms of its series at -1/8."""
        x = x + (1 << (self.bits - 4))
        square = self.multiply(x, x)
        cube, fourth = self.multiply(square, x), self.multiply(square, square)
        inner = fixed_point.divide_half_away(fourth, 2) + cube
        inner = self.multiply(inner, self._constant(_THIRD)) + square
        inner = fixed_point.divide_half_away(inner, 1)
        first = self._constant(_EXP_OF_AN_EIGHTH)
        total = first + self.multiply(x + inner, first)
        return jnp.clip(total, -self.one - 1, self.one) if self.bits == 16 else total

    def _newton(self, x: Array) -> Array:
        """2 / (1 + x) of x in [0, 1), with two bits before the point."""
        half = (x >> 1) + (1 << (self.bits - 2))
        y = self._constant(_48_OVER_17) + self.multiply(half, self._constant(_32_OVER_17))
        for _ in range(3):
            rest = (1 << (self.bits - 3)) - self.multiply(half, y)
            y = y + self.shift_left(self.multiply(y, rest), 2)
        return y

    def inverse(self, x: Array) -> Array:
        """1 / (1 + x) of x in [0, 1), without bits before the point."""
        return self.shift_left(self._newton(x), 1)

    def logistic(self, x: Array, k: int) -> Array:
        """The sigmoid."""
        upper = self.inverse(self.exp(-jnp.abs(x), k))
        y = jnp.where(x > 0, upper, self.one - upper)
        return jnp.where(x == 0, 1 << (self.bits - 2), y)

    def tanh(self, x: Array, k: int) -> Array:
        """The hyperbolic tangent."""
        y = self._newton(self.exp(-jnp.abs(x), k + 1)) - (1 << (self.bits - 3))
        y = self.shift_left(y, 2)
        return jnp.where(x == 0, 0, jnp.where(x < 0, -y, y))

    @staticmethod
    def reciprocal_root(x: int, bits: int) -> int:
        """1 / sqrt(x) of a known integer from 1 to 2**29 - 1, with fractional bits; exact for 1."""

        def multiply(a: int, b: int) -> int:
            return (a * b + (1 << 30)) >> 31

        if x == 1:
            return 1 << bits
        pairs = (31 - x.bit_length()) // 2 - 1
        half = x << 2 * pairs >> 1  # with three bits before the point, as y
        quarter, y, most = (half >> 1) + (half & 1), 1 << 28, (1 << 31) - 1
        for _ in range(5):
            cube = min(multiply(multiply(y, y), y) << 6, most)
            y = min((multiply(3 << 27, y) - multiply(quarter, cube)) << 3, most)
        y = multiply(y, round(2**30.5))
        last = 31 - bits + 11 - pairs
        return (y + (1 << (last - 1))) >> last
