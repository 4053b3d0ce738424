"""The softmax of 8 bits, rounded once, by integers of many digits.

With exponentials E and their sum S, y_scale = p / q, the rounded quotient is n where
(2 n - 1) p S < 2 q E < (2 n + 1) p S. The exponentials are made on the host. Exponentials of
different rationals are linearly independent (Lindemann and Weierstrass): the quotient is a tie only
where all elements are equal, and there these integers are exact. Elsewhere they decide unless it is
closer to a tie than 2**-80 of itself.
"""

import decimal
import functools
import math
from fractions import Fraction
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax.errors import UnsupportedError

MOST_ELEMENTS = 2**16 - 1  # each digit of a sum of so many fits a uint32
_DIGIT = 16  # bits
_FLOAT_DIGITS = 2000  # decimal; more than any float64 has
_PRECISION = 96  # bits of the exponentials beyond those of y_scale
_HIGHEST_BIT = 256  # a quotient's highest bit: every output saturates beyond 511


class _Tables(NamedTuple):
    """For each distance from the largest element, digits from the lowest on."""

    terms: np.ndarray  # uint32 (256, digits): 2 q E
    shares: np.ndarray  # uint32 (256, digits): p E


def softmax(x: Array, x_scale: float, y_scale: float, y_zero_point: int) -> Array:
    """The softmax along the last axis; the scales are constants."""
    if not (math.isfinite(x_scale) and math.isfinite(y_scale) and y_scale > 0):
        raise UnsupportedError("its scales are not finite, or y_scale is not positive")
    if x.shape[-1] > MOST_ELEMENTS:
        raise UnsupportedError(f"its axis has more than {MOST_ELEMENTS:,} elements")
    tables = _make_tables(abs(x_scale), y_scale, int(x.shape[-1]))
    ordered = x.astype(jnp.int32) * (-1 if x_scale < 0 else 1)
    distance = jnp.max(ordered, axis=-1, keepdims=True) - ordered
    term = _digits(jnp.asarray(tables.terms)[distance])
    share = jnp.asarray(tables.shares)[distance]
    total = _carry(_digits(jnp.sum(share, axis=-2, keepdims=True, dtype=jnp.uint32)))
    quotient = jnp.zeros(x.shape, jnp.int32)
    bit = _HIGHEST_BIT
    while bit:
        tried = quotient + bit
        odd = (2 * tried - 1).astype(jnp.uint32)
        above, same = _compare(term, _carry([digit * odd for digit in total]))
        quotient = jnp.where(above | (same & (tried % 2 == 0)), tried, quotient)
        bit //= 2
    limits = np.iinfo(x.dtype)
    return jnp.clip(quotient + y_zero_point, limits.min, limits.max).astype(x.dtype)


@functools.lru_cache(maxsize=64)
def _make_tables(x_scale: float, y_scale: float, count: int) -> _Tables:
    step = Fraction(x_scale)
    numerator, denominator = y_scale.as_integer_ratio()
    bits = _PRECISION + max(0, denominator.bit_length() - numerator.bit_length())
    exponentials = [_exponential(distance * step, bits) for distance in range(256)]
    largest = max(2 * denominator, 4 * _HIGHEST_BIT * count * numerator) << bits
    digits = -(-largest.bit_length() // _DIGIT)
    return _Tables(
        *(
            np.array([_split(factor * each, digits) for each in exponentials], np.uint32)
            for factor in (2 * denominator, numerator)
        )
    )


def exp_bounds(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """exp(x) between two fractions, 2**-digits apart or less, for a float's multiple x."""
    with decimal.localcontext(prec=_FLOAT_DIGITS) as context:
        exact = decimal.Decimal(x.numerator) / x.denominator
        context.prec = digits // 3 + max(math.ceil(x), 0) + 8
        value = exact.exp()  # rounded once
        return Fraction(value.next_minus()), Fraction(value.next_plus())


def _exponential(x: Fraction, bits: int) -> int:
    """exp(-x) in units of 2**-bits, rounded down."""
    if x == 0:
        return 1 << bits
    if x > bits:
        return 0
    low, _ = exp_bounds(-x, bits + 8)
    return math.floor(low * (1 << bits))


def _split(value: int, digits: int) -> list[int]:
    mask = (1 << _DIGIT) - 1
    return [value >> _DIGIT * i & mask for i in range(digits)]


def _digits(array: Array) -> list[Array]:
    """The last axis as a list."""
    return [array[..., i] for i in range(array.shape[-1])]


def _carry(digits: list[Array]) -> list[Array]:
    """Carries the bits above the 16th of each digit to the next digit."""
    found, carry = [], jnp.uint32(0)
    for digit in digits:
        value = digit + carry
        found.append(value & jnp.uint32((1 << _DIGIT) - 1))
        carry = value >> _DIGIT
    return found


def _compare(a: list[Array], b: list[Array]) -> tuple[Array, Array]:
    """Returns where a > b, and where they are equal."""
    above, same = jnp.bool_(False), jnp.bool_(True)
    for x, y in zip(a, b, strict=True):
        above = (x > y) | ((x == y) & above)
        same = (x == y) & same
    return above, same
