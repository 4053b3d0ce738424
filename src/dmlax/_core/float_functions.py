"""Functions of float32 as fixed sequences of IEEE operations and of integer operations.

`apply` flushes operands and puts the one NaN where an operand is NaN: what the others compute of a
NaN does not matter. Coefficients are minimax fits, rounded to float32. A CPU has kernels of these
sequences, `_fused/exact_floats`.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, float_bits, ieee
from dmlax._core.float_pairs import (
    FRACTION,
    INFINITY,
    LEAST_NORMAL,
    SIGN,
    Number,
    Pair,
    bits,
    constant,
    floats,
    flush,
    polynomial,
    product_of,
    product_of_pairs,
    quotient_of,
    rounded,
    scale,
    sum_of,
    sum_of_ordered,
)
from dmlax._core.ieee import add, divide, multiply, subtract

VERSION = "exact-1"
"""The name of these sequences and of the orders of `sums.py`."""
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_QUIET_NAN = np.int32(0x7FC00000)
_UNIT = Pair(_ONE, _ZERO)
_NAN, _INFINITE = np.float32(np.nan), np.float32(np.inf)
_LEAST_POWER = -60  # 2**-60 beside 1 changes nothing
_LOG2_E = (1.442695, 1.925963e-08)
_TWO_THIRDS = (0.6666667, -1.9868216e-08)
_LN2_TOP, _LN2_REST = np.float32(0.693145751953125), np.float32(1.4286068e-06)  # 15 bits, the rest
_LN2 = (0.6931472, -1.9046542e-09)
_HALF_PI = (1.5707964, -4.371139e-08)
_LEAST_MANTISSA = np.int32(0x3F3504F3)  # the square root of one half
_EXPONENTIAL = (0.16666667, 0.041666463, 0.008333209, 0.0013935136, 0.00019943497)
_LOGARITHM = (
    *(0.33333334, -0.24999973, 0.19999947, -0.16669054, 0.14288676),
    *(-0.12432013, 0.10999745, -0.10744604, 0.107658274, -0.062561065),
)
_INVERSE_TANH = (0.4, 0.28571442, 0.22208154, 0.19083178)
_SINE = (-0.16666667, 0.00833338, -0.00019853505, 2.837394e-06)
_COSINE = (0.041666668, -0.0013888982, 2.4822977e-05, -2.8975902e-07)
_ARC_TANGENT = (-0.3333333, 0.19999802, -0.14279127, 0.11009466, -0.08282185, 0.04348523)
_ERROR = (
    *(0.12837917, -0.3761263, 0.11283618, -0.026855126),
    *(0.005190734, -0.00080307614, 7.920368e-05),
)
_LOG_OF_COMPLEMENT = (  # (log(erfc(1 + t)) - log(erfc(1))) / t for t up to 3
    *(-2.6389675, -0.8431071, -0.041563395, 0.010046422),
    *(-0.0020121888, 0.00028980913, -2.1777725e-05),
)
_LOG_OF_COMPLEMENT_AT_1 = (-1.8496056, 5.0369486e-08)
_ERROR_IN_THE_MIDDLE = (  # (erf(3/4 + t) - erf(3/4)) / t for |t| up to 1/4
    *(0.64293104, -0.4821983, 0.026791124, 0.15068245),
    *(-0.053291466, -0.026661076, 0.01847585),
)
_ERROR_AT_3_QUARTERS = (0.71115565, -1.9346363e-08)
# The normal distribution's tail at t times exp(t**2 / 2) (1 + t), in powers of 1 - 6 / (t + 3).
_TAIL_AT_3 = (0.4860558, 2.0442275e-09)
_TAIL = (
    *(-0.096526764, -0.016432181, 0.045164112, -0.022729494, 0.0011586295, 0.0030076483),
    *(-0.0003462059, -0.00051036745, 4.203613e-06, 8.2432234e-05, 1.9857323e-05),
)
_TAIL_NEAR_0 = (0.3989423, -0.06649038, 0.009973557, -0.0011873282)  # 1/2 less it, over t
_GATE = (1.5957692, -4.534068e-08)  # 2 sqrt(2 / pi)
_GATE_OF_SQUARE = (0.071354814, 2.3988325e-09)  # times 0.044715
_TWO_OVER_PI = (  # a word of zeros, and 256 bits after the point
    *(0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0),
    *(0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561),
)


def _put_sign(of: Array, x: Array) -> Array:
    """x, which is not negative, with the sign of another number."""
    return floats((bits(of) & SIGN) | bits(x))


class Kernel(NamedTuple):
    """A platform's functions.

    Attributes:
      run: as `apply`, of a function that is taken.
      takes: says if it runs a function on such operands.
    """

    run: Callable[[Callable[..., Array], Array], Array]
    takes: Callable[..., bool]


kernels: dict[str, Kernel] = {}
"""Kernels by platform, which the packages of kernels add."""


def apply(function: Callable[..., Array], *operands: Array) -> Array:
    """A function of this file, or of `ieee.py`, of any float32."""
    alone = tuple(
        (platform, functools.partial(each.run, function))
        for platform, each in kernels.items()
        if each.takes(function, *operands)
    )
    if not alone:
        return _apply(function, *operands)
    (x,) = operands
    functions = choice.Alternatives(functools.partial(_apply, function), alone)
    result: Array = choice.choose(functions, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return result


def _apply(function: Callable[..., Array], *operands: Array) -> Array:
    value = finish(function(*map(flush, operands)))
    if len(operands) == 1:  # `ieee.py` and `pow` see to it themselves
        return jnp.where(operands[0] != operands[0], np.float32(np.nan), value)
    return value


def finish(x: Array) -> Array:
    """A result: 0 up to 2**-126, and one NaN, 0x7FC00000.

    Processors differ in when a product that rounds to 2**-126 counts as subnormal.
    """
    of = bits(x)
    size = of & ~SIGN
    of = jnp.where(size <= LEAST_NORMAL, of & SIGN, of)
    return floats(jnp.where(size > INFINITY, _QUIET_NAN, of))


def _limit(x: Array, low: float, high: float) -> Array:
    x = jnp.where(x < low, np.float32(low), x)
    return jnp.where(x > high, np.float32(high), x)


def _power_of_two(exponent: Array) -> Array:
    return float_bits.power_of_two(jnp.maximum(exponent, _LEAST_POWER))


def _from(start: tuple[float, float], x: Array) -> Pair:
    """A number of 48 bits and another one."""
    high, low = map(np.float32, start)
    return sum_of(high, x).plus(low)


def _exponential(x: Array, low: Array | None = None) -> tuple[Pair, Array]:
    """A pair near 1 and a power of two, whose product is exp(x + low)."""
    count = rounded(multiply(x, np.float32(_LOG2_E[0])))
    rest = sum_of(subtract(x, multiply(count, _LN2_TOP)), multiply(count, -_LN2_REST))
    rest = rest if low is None else sum_of(*rest.plus(low))
    return _exponential_of_rest(rest), count.astype(jnp.int32)


def _exponential_of_rest(x: Pair) -> Pair:
    """exp of a pair between half of -log 2 and half of log 2."""
    square = multiply(x.high, x.high)
    cube = multiply(multiply(square, x.high), polynomial(_EXPONENTIAL, x.high))
    low = add(x.low, multiply(x.low, x.high))
    tail = add(multiply(square, _HALF), add(low, cube))
    return sum_of_ordered(*sum_of_ordered(_ONE, x.high).plus(tail))


def exponential(x: Pair) -> tuple[Pair, Array]:
    """A pair near 1 and a power of two, whose product is exp of a pair."""
    return _exponential(_limit(x.high, -105, 88.8), x.low)


def exp(x: Array) -> Array:
    """The exponential function."""
    value, exponent = _exponential(_limit(x, -105, 88.8))
    return scale(value.rounded(), exponent)


def exp2(x: Array) -> Array:
    """2**x."""
    x = _limit(x, -151, 128.4)
    count = rounded(x)
    rest = product_of_pairs(Pair(subtract(x, count), _ZERO), constant(*_LN2))
    return scale(_exponential_of_rest(rest).rounded(), count.astype(jnp.int32))


def expm1(x: Array) -> Array:
    """exp(x) - 1."""
    value, exponent = _exponential(_limit(x, -20, 88.8))
    high, low = value.scaled(_power_of_two(jnp.minimum(exponent, 40)))
    less = sum_of(high, -_ONE).plus(low).rounded()
    less = jnp.where(exponent > 40, scale(value.rounded(), exponent), less)
    return jnp.where(jnp.abs(x) < 2.0**-26, x, less)


def _mantissa(x: Array) -> tuple[Array, Array]:
    """A positive number's mantissa, from sqrt(1/2) to sqrt(2), less 1; and the exponent."""
    exponent = (bits(x) - _LEAST_MANTISSA) >> FRACTION
    return subtract(floats(bits(x) - (exponent << FRACTION)), _ONE), exponent


def _logarithm(x: Array, lost: Number, exponent: Array, low: Number = _ZERO) -> Pair:
    """log((1 + x + lost + low) * 2**exponent) for x from sqrt(1/2) - 1 to sqrt(2) - 1."""
    x, low = sum_of(x, lost).plus(low)
    half = product_of(x, x).scaled(_HALF)
    high, rest = sum_of_ordered(x, -half.high)
    square = multiply(half.high, np.float32(2))
    cube = multiply(multiply(x, square), polynomial(_LOGARITHM, x))
    rest = add(subtract(rest, half.low), cube)
    rest = add(rest, subtract(low, multiply(low, x)))
    count = exponent.astype(jnp.float32)
    rest = add(rest, multiply(count, _LN2_REST))
    return sum_of(multiply(count, _LN2_TOP), high).plus(rest)


def log(x: Array) -> Array:
    """The natural logarithm."""
    mantissa, exponent = _mantissa(x)
    value = _logarithm(mantissa, _ZERO, exponent).rounded()
    value = jnp.where(x == 0, -_INFINITE, jnp.where(x < 0, _NAN, value))
    return jnp.where(x == np.inf, x, value)


def log1p(x: Array) -> Array:
    """log(1 + x)."""
    total, low = sum_of(_ONE, x)
    mantissa, exponent = _mantissa(total)
    value = _logarithm(mantissa, multiply(low, _power_of_two(-exponent)), exponent).rounded()
    value = jnp.where(x == -1, -_INFINITE, jnp.where(x < -1, _NAN, value))
    return jnp.where((x == np.inf) | (jnp.abs(x) < 2.0**-26), x, value)


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    value, exponent = _exponential(_limit(-jnp.abs(x), -105, 0))
    high, low = value.scaled(_power_of_two(exponent))
    total, lost = sum_of_ordered(_ONE, high)
    is_double = (total > np.float32(1.4142135)).astype(jnp.int32)
    half = float_bits.power_of_two(-is_double)
    mantissa = subtract(multiply(total, half), _ONE)
    of = _logarithm(mantissa, multiply(lost, half), is_double, multiply(low, half))
    above = sum_of(jnp.where(x > 0, x, 0), of.high).plus(of.low).rounded()
    above = jnp.where(x == np.inf, x, above)
    return jnp.where((x < 0) & (exponent < -30), scale(value.rounded(), exponent), above)


def _logistic(x: Pair) -> tuple[Pair, Pair, Array]:
    """For x from 0 to 105: 1 / (1 + exp(-x)), and exp(-x) times that as a pair and an exponent."""
    value, exponent = _exponential(-x.high, -x.low)
    high, low = value.scaled(_power_of_two(exponent))
    divisor = sum_of_ordered(_ONE, high).plus(low)
    return quotient_of(_UNIT, divisor), quotient_of(value, divisor), exponent


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    size = _limit(jnp.abs(x), 0, 105)
    above, below, exponent = _logistic(Pair(size, _ZERO))
    return jnp.where(x < 0, scale(below.rounded(), exponent), above.rounded())


def tanh(x: Array) -> Array:
    """The hyperbolic tangent."""
    size = _limit(jnp.abs(x), 0, 10)
    value, exponent = _exponential(multiply(size, np.float32(-2)))
    high, low = value.scaled(_power_of_two(exponent))
    one = _ONE
    dividend, divisor = sum_of_ordered(one, -high).plus(-low), sum_of_ordered(one, high).plus(low)
    quotient = _put_sign(x, quotient_of(dividend, divisor).rounded())
    return jnp.where(jnp.abs(x) < 2.0**-12, x, quotient)


def erf(x: Array) -> Array:
    """The error function."""
    size = _limit(jnp.abs(x), 0, 4)
    is_least = size < 2.0**-40
    scaled = jnp.where(is_least, multiply(size, np.float32(2.0**40)), size)
    near = add(scaled, multiply(scaled, polynomial(_ERROR, multiply(size, size))))
    rest = subtract(size, np.float32(0.75))
    slope = multiply(rest, polynomial(_ERROR_IN_THE_MIDDLE, rest))
    middle = _from(_ERROR_AT_3_QUARTERS, slope).rounded()
    rest = subtract(jnp.where(size < 1, _ONE, size), _ONE)
    far = _from(_LOG_OF_COMPLEMENT_AT_1, multiply(rest, polynomial(_LOG_OF_COMPLEMENT, rest)))
    value, exponent = _exponential(*far)
    high, low = value.scaled(_power_of_two(exponent))
    complement = sum_of_ordered(_ONE, -high).plus(-low).rounded()
    near = jnp.where(is_least, scale(near, jnp.int32(-40)), near)
    near = jnp.where(size < 0.5, near, middle)
    return _put_sign(x, jnp.where(size < 1, near, complement))


def _times(x: Array, y: Pair) -> Array:
    high, low = product_of(x, y.high)
    return add(high, add(low, multiply(x, y.low)))


def gelu(x: Array) -> Array:
    """X times the normal distribution at x."""
    size = _limit(jnp.abs(x), 0, 14)
    half = product_of(size, size).scaled(-_HALF)
    value, exponent = _exponential(*half)
    six = Pair(np.float32(6), _ZERO)
    quotient = quotient_of(six, sum_of(size, np.float32(3)))
    place = sum_of(_ONE, -quotient.high).plus(-quotient.low).rounded()
    rest = _from(_TAIL_AT_3, multiply(place, polynomial(_TAIL, place)))
    far = quotient_of(product_of_pairs(value, rest), sum_of(_ONE, size))
    slope = multiply(size, polynomial(_TAIL_NEAR_0, multiply(size, size)))
    near = sum_of_ordered(_HALF, -slope)
    tail = Pair(*(jnp.where(size < 0.25, *parts) for parts in zip(near, far, strict=True)))
    below = scale(_times(size, tail), exponent)
    high, low = tail.scaled(_power_of_two(exponent))
    above = _times(size, sum_of_ordered(_ONE, -high).plus(-low))
    return _of_gate(x, above, below)


def gelu_tanh(x: Array) -> Array:
    """X / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x**3)))."""
    size = _limit(jnp.abs(x), 0, 12)
    inner = product_of_pairs(constant(*_GATE_OF_SQUARE), product_of(size, size))
    slope = _from(_GATE, inner.high).plus(inner.low)
    above, below, exponent = _logistic(product_of_pairs(Pair(size, _ZERO), slope))
    return _of_gate(x, _times(size, above), scale(_times(size, below), exponent))


def _of_gate(x: Array, above: Array, below: Array) -> Array:
    """Chooses by the sign of x; near 0 it is half of x, and far above x."""
    value = jnp.where(x < 0, -below, jnp.where(x > 12, x, above))
    return jnp.where(jnp.abs(x) < 2.0**-30, flush(multiply(x, _HALF)), value)


def _quadrant(x: Array) -> tuple[Pair, Array]:
    """x less a multiple of pi / 2, which is next to 0, and the multiple modulo 4, of a finite x.

    A window of 96 bits of 2 / pi times the mantissa has all bits that matter.
    """
    of = bits(x) & ~SIGN
    mantissa = ((of & (LEAST_NORMAL - 1)) | LEAST_NORMAL).astype(jnp.uint32)
    start = jnp.clip((of >> FRACTION) - 120, 6, 134)  # its first bit
    words, shift = jnp.asarray(np.asarray(_TWO_OVER_PI, np.uint32)), (start & 31).astype(jnp.uint32)
    four = [words.at[(start >> 5) + i].get(mode="clip") for i in range(4)]
    window = [(a << shift) | ((b >> 1) >> (31 - shift)) for a, b in itertools.pairwise(four)]
    last, _ = float_bits.multiply_wide(window[2], mantissa)
    carry, middle = float_bits.multiply_wide(window[1], mantissa)
    low = middle + last
    high = window[0] * mantissa + carry + (low < middle).astype(jnp.uint32)
    count = (high + np.uint32(1 << 29)) >> 30
    high = high - (count << 30)
    is_negative = (high >> 31) == 1
    low, high = (
        jnp.where(is_negative, -low, low),
        jnp.where(is_negative, ~high + (low == 0).astype(jnp.uint32), high),
    )
    is_short = high == 0
    high, low = jnp.where(is_short, low, high), jnp.where(is_short, 0, low)
    zeros = jnp.minimum(lax.clz(high), 31)
    high, low = float_bits.shift_left_wide((high, low), zeros)
    exponent = -22 - zeros.astype(jnp.int32) - jnp.where(is_short, 32, 0)
    parts = (high >> 8, ((high & 0xFF) << 16) | (low >> 16))
    fraction = Pair(*(part.astype(jnp.int32).astype(jnp.float32) for part in parts))
    fraction = Pair(
        multiply(fraction.high, float_bits.power_of_two(exponent)),
        multiply(fraction.low, float_bits.power_of_two(exponent - 24)),
    )
    rest = product_of_pairs(fraction, constant(*_HALF_PI))
    is_inside = of <= np.int32(0x3F490FDA)  # pi / 4
    rest = rest.scaled(jnp.where(is_negative ^ (x < 0), -_ONE, _ONE))
    multiple = count.astype(jnp.int32)
    multiple = jnp.where(is_inside, 0, jnp.where(x < 0, -multiple, multiple))
    return Pair(jnp.where(is_inside, x, rest.high), jnp.where(is_inside, 0, rest.low)), multiple


def _circle(x: Array, turn: int) -> Array:
    """The sine, `turn` quarters on."""
    (angle, low), quarter = _quadrant(x)
    quarter = quarter + turn
    square = product_of(angle, angle)
    half = square.scaled(_HALF)
    cube = multiply(multiply(angle, square.high), polynomial(_SINE, square.high))
    sine = add(angle, add(cube, subtract(low, multiply(low, half.high))))
    fourth = multiply(multiply(square.high, square.high), polynomial(_COSINE, square.high))
    rest = subtract(subtract(fourth, half.low), multiply(angle, low))
    cosine = sum_of_ordered(_ONE, -half.high).plus(rest).rounded()
    value = jnp.where(quarter & 1 == 1, cosine, sine)
    value = jnp.where(quarter & 2 == 2, -value, value)
    return jnp.where(jnp.abs(x) == np.inf, _NAN, value)


def sin(x: Array) -> Array:
    """The sine."""
    return jnp.where(jnp.abs(x) < 2.0**-12, x, _circle(x, 0))


def cos(x: Array) -> Array:
    """The cosine."""
    return _circle(x, 1)


def atan(x: Array) -> Array:
    """The arc tangent."""
    size = _limit(jnp.abs(x), 2.0**-13, 2.0**30)
    is_far, is_near = size > np.float32(2.4142135), size < np.float32(0.41421357)
    dividends = Pair(size, _ZERO), sum_of(size, -_ONE), Pair(-_ONE, _ZERO)
    divisors = _UNIT, sum_of(size, _ONE), Pair(size, _ZERO)
    starts = Pair(_ZERO, _ZERO), constant(_HALF_PI[0] / 2, _HALF_PI[1] / 2), constant(*_HALF_PI)

    def chosen(near: Pair, middle: Pair, far: Pair) -> Pair:
        parts = zip(near, middle, far, strict=True)
        return Pair(*(jnp.where(is_near, a, jnp.where(is_far, c, b)) for a, b, c in parts))

    quotient, start = quotient_of(chosen(*dividends), chosen(*divisors)), chosen(*starts)
    square = multiply(quotient.high, quotient.high)
    tail = multiply(multiply(quotient.high, square), polynomial(_ARC_TANGENT, square))
    value = sum_of(start.high, quotient.high).plus(add(start.low, add(quotient.low, tail)))
    return jnp.where(jnp.abs(x) < 2.0**-12, x, _put_sign(x, value.rounded()))


def _log2(x: Array) -> Pair:
    """log2 of a positive finite number, to 2**-36 of it."""
    less, exponent = _mantissa(x)
    ratio = quotient_of(Pair(less, _ZERO), sum_of(np.float32(2), less))
    square = product_of_pairs(ratio, ratio)
    rest = multiply(square.high, polynomial(_INVERSE_TANH, square.high))
    tail = product_of_pairs(product_of_pairs(ratio, square), _from(_TWO_THIRDS, rest))
    high, low = sum_of_ordered(multiply(ratio.high, np.float32(2)), tail.high)
    low = add(low, add(tail.low, multiply(ratio.low, np.float32(2))))
    value = product_of_pairs(Pair(high, low), constant(*_LOG2_E))
    return sum_of(exponent.astype(jnp.float32), value.high).plus(value.low)


def pow(x: Array, y: Array) -> Array:
    """x**y: 1 of x = 1 or y = 0, else NaN where an operand is NaN."""
    size = jnp.abs(x)
    is_usual = (size > 0) & (size < np.inf)
    logarithm = _log2(jnp.where(is_usual, size, _ONE))
    exponent = product_of_pairs(logarithm, Pair(_limit(y, -(2.0**40), 2.0**40), jnp.zeros_like(y)))
    limited = _limit(exponent.high, -151, 128.4)
    low = jnp.where(limited == exponent.high, exponent.low, 0)
    count = rounded(limited)
    rest = product_of_pairs(sum_of(subtract(limited, count), low), constant(*_LN2))
    power = scale(_exponential_of_rest(rest).rounded(), count.astype(jnp.int32))
    power = jnp.where(is_usual, power, jnp.where((size == 0) == (y < 0), _INFINITE, np.float32(0)))
    half = multiply(y, _HALF)
    is_whole = jnp.floor(y) == y
    is_odd = is_whole & (jnp.abs(y) < 2.0**24) & (jnp.floor(half) != half)
    power = jnp.where(is_odd & (bits(x) < 0), -power, power)
    power = jnp.where((x < 0) & (x > -np.inf) & ~is_whole, _NAN, power)
    power = jnp.where((x != x) | (y != y), _NAN, power)
    return jnp.where((x == 1) | (y == 0), _ONE, power)


def sqrt(x: Array) -> Array:
    """The square root, correctly rounded."""
    return jnp.where(x < 0, _NAN, ieee.sqrt(x))


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    exponent = (bits(x) >> FRACTION) - 127
    is_odd = exponent & 1
    mantissa = floats((bits(x) & (LEAST_NORMAL - 1)) | ((is_odd + 127) << FRACTION))
    root = ieee.sqrt(mantissa)
    inverse, square = divide(_ONE, root), product_of(root, root)
    lost = subtract(subtract(mantissa, square.high), square.low)
    lost = multiply(multiply(lost, _HALF), inverse)  # sqrt(mantissa) less root
    unit = product_of(inverse, root)
    rest = subtract(subtract(_ONE, unit.high), unit.low)
    rest = subtract(rest, multiply(inverse, lost))
    value = scale(add(inverse, multiply(inverse, rest)), (is_odd - exponent) >> 1)
    value = jnp.where(x == np.inf, np.float32(0), jnp.where(x < 0, _NAN, value))
    return jnp.where(x == 0, _put_sign(x, jnp.full_like(x, np.inf)), value)


def reciprocal(x: Array) -> Array:
    """1 / x, correctly rounded."""
    return flush(divide(_ONE, x))
