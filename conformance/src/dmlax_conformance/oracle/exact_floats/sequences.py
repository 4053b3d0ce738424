"""The functions of `exact-1`: sequences of IEEE operations of one float32 number.

Every `+`, `-`, `*` and `/` rounds once, and none are contracted. `compute` flushes operands and
results. A `Pair` is the sum of two numbers, of which the second is much smaller.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from .single import INFINITE, INFINITY, LEAST_NORMAL, NAN, SIGN, Single, root, single

ZERO, ONE = single(0), single(1)
LOG2_E, LOG2_E_LOW = single(1.442695), single(1.925963e-08)
LN2, LN2_LOW = single(0.6931472), single(-1.9046542e-09)
LN2_TOP, LN2_REST = single(0.693145751953125), single(1.4286068e-06)  # LN2_TOP has 15 bits
HALF_PI, HALF_PI_LOW = single(1.5707964), single(-4.371139e-08)
TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561  # times 2**256
ROOT_OF_HALF = 0x3F3504F3  # the bits of sqrt(1/2)
EXPONENTIAL = (0.16666667, 0.041666463, 0.008333209, 0.0013935136, 0.00019943497)
LOGARITHM = (
    *(0.33333334, -0.24999973, 0.19999947, -0.16669054, 0.14288676),
    *(-0.12432013, 0.10999745, -0.10744604, 0.107658274, -0.062561065),
)
INVERSE_TANH = (0.4, 0.28571442, 0.22208154, 0.19083178)
SINE = (-0.16666667, 0.00833338, -0.00019853505, 2.837394e-06)
COSINE = (0.041666668, -0.0013888982, 2.4822977e-05, -2.8975902e-07)
ARC_TANGENT = (-0.3333333, 0.19999802, -0.14279127, 0.11009466, -0.08282185, 0.04348523)
ERROR = (
    *(0.12837917, -0.3761263, 0.11283618, -0.026855126),
    *(0.005190734, -0.00080307614, 7.920368e-05),
)
ERROR_IN_THE_MIDDLE = (
    *(0.64293104, -0.4821983, 0.026791124, 0.15068245),
    *(-0.053291466, -0.026661076, 0.01847585),
)
LOG_OF_COMPLEMENT = (
    *(-2.6389675, -0.8431071, -0.041563395, 0.010046422),
    *(-0.0020121888, 0.00028980913, -2.1777725e-05),
)
TAIL = (
    *(-0.096526764, -0.016432181, 0.045164112, -0.022729494, 0.0011586295, 0.0030076483),
    *(-0.0003462059, -0.00051036745, 4.203613e-06, 8.2432234e-05, 1.9857323e-05),
)
SOFTMAX = (
    *(5.0000001201e-1, 1.6666665459e-1, 4.1665795894e-2),
    *(8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4),
)
TAIL_NEAR_0 = (0.3989423, -0.06649038, 0.009973557, -0.0011873282)


class Pair(NamedTuple):
    """`high + low`."""

    high: Single
    low: Single

    def rounded(self) -> Single:
        """Return the sum."""
        return self.high + self.low

    def plus(self, low: Any) -> "Pair":
        """Add to the low part."""
        return Pair(self.high, self.low + low)

    def times(self, factor: Any) -> "Pair":
        """Multiply both parts."""
        return Pair(self.high * factor, self.low * factor)


def pair(high: Any, low: Any = 0) -> Pair:
    """Return a pair of numbers."""
    return Pair(single(high), single(low))


# -- steps ---------------------------------------------------------------------------------------


def flush(x: Single) -> Single:
    """Return 0 with the sign of a subnormal number, and any other number."""
    return Single(x.word & SIGN) if x.size < LEAST_NORMAL else x


def finish(x: Single) -> Single:
    """Return a result: 0 with its sign up to 2**-126, one NaN, and any other number."""
    if x.size > INFINITY:
        return NAN
    return Single(x.word & SIGN) if x.size <= LEAST_NORMAL else x


def limit(x: Single, low: float, high: float) -> Single:
    """Return the number, or the nearer of two limits."""
    return single(low) if x < low else single(high) if x > high else x


def ordered_sum(x: Any, y: Any) -> Pair:
    """Return x + y, of which x is larger."""
    x, y = single(x), single(y)
    total = x + y
    return Pair(total, y - (total - x))


def exact_sum(x: Any, y: Any) -> Pair:
    """Return x + y."""
    x, y = single(x), single(y)
    total = x + y
    of_y = total - x
    return Pair(total, (x - (total - of_y)) + (y - of_y))


def exact_product(x: Any, y: Any) -> Pair:
    """Return x * y, from products of the upper 12 bits of each mantissa and of what is left."""
    x, y = single(x), single(y)
    product = x * y
    a, c = Single(x.word & ~0xFFF), Single(y.word & ~0xFFF)
    b, d = x - a, y - c
    return Pair(product, (((a * c - product) + a * d) + b * c) + b * d)


def product_of(x: Pair, y: Pair) -> Pair:
    """Return x * y without the product of the low parts."""
    return exact_product(x.high, y.high).plus(x.high * y.low + x.low * y.high)


def quotient_of(x: Pair, y: Pair) -> Pair:
    """Return x / y."""
    quotient = x.high / y.high
    product = exact_product(quotient, y.high)
    rest = ((x.high - product.high) - product.low) + x.low
    return Pair(quotient, (rest - quotient * y.low) / y.high)


def polynomial(coefficients: Sequence[float], x: Single) -> Single:
    """Return the sum of coefficients times powers by Horner's rule; the constant is first."""
    value = single(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value


def from_start(start: Pair, x: Single) -> Pair:
    """Return a pair and a number, added."""
    return exact_sum(start.high, x).plus(start.low)


def nearest(x: Single) -> Single:
    """Return the nearest integer, by a sum with 1.5 * 2**23."""
    return (x + 12582912) - 12582912


def scale(x: Single, exponent: int) -> Single:
    """Return x * 2**exponent of a positive number: 0 below 2**-126, infinity from 2**128 on."""
    word = x.word + (exponent << 23)
    return ZERO if word < LEAST_NORMAL else Single(min(word, INFINITY))


def power(exponent: int) -> Single:
    """Return 2**exponent, and 2**-60 below."""
    return scale(ONE, max(exponent, -60))


def with_sign(of: Single, x: Single) -> Single:
    """Return a number with the sign of another."""
    return Single(x.size | (of.word & SIGN))


# -- exponentials --------------------------------------------------------------------------------


def exponential_of_rest(x: Pair) -> Pair:
    """Return exp(x) of a pair within half of log 2."""
    square = x.high * x.high
    cube = (square * x.high) * polynomial(EXPONENTIAL, x.high)
    low = x.low + x.low * x.high
    return ordered_sum(*ordered_sum(1, x.high).plus(square * 0.5 + (low + cube)))


def exponential(x: Single, low: Single = ZERO) -> tuple[Pair, int]:
    """Return a pair and the exponent of a power of two, whose product is exp(x + low)."""
    count = nearest(x * LOG2_E)
    rest = exact_sum(x - count * LN2_TOP, count * -LN2_REST)
    return exponential_of_rest(exact_sum(*rest.plus(low))), int(count.value())


def exp(x: Single) -> Single:
    """Return the exponential."""
    value, exponent = exponential(limit(x, -105, 88.8))
    return scale(value.rounded(), exponent)


def exp2(x: Single) -> Single:
    """Return 2**x."""
    x = limit(x, -151, 128.4)
    count = nearest(x)
    rest = product_of(pair(x - count), Pair(LN2, LN2_LOW))
    return scale(exponential_of_rest(rest).rounded(), int(count.value()))


def expm1(x: Single) -> Single:
    """Return exp(x) - 1."""
    if abs(x) < 2**-26:
        return x
    value, exponent = exponential(limit(x, -20, 88.8))
    if exponent > 40:
        return scale(value.rounded(), exponent)
    high, low = value.times(power(exponent))
    return exact_sum(high, -1).plus(low).rounded()


def logistic(x: Pair) -> tuple[Pair, Pair, int]:
    """Return 1 / (1 + exp(-x)); exp(-x) times that as a pair and an exponent."""
    value, exponent = exponential(-x.high, -x.low)
    high, low = value.times(power(exponent))
    divisor = ordered_sum(1, high).plus(low)
    return quotient_of(pair(1), divisor), quotient_of(value, divisor), exponent


def sigmoid(x: Single) -> Single:
    """Return 1 / (1 + exp(-x))."""
    above, below, exponent = logistic(Pair(limit(abs(x), 0, 105), ZERO))
    return scale(below.rounded(), exponent) if x < 0 else above.rounded()


def tanh(x: Single) -> Single:
    """Return the hyperbolic tangent."""
    if abs(x) < 2**-12:
        return x
    value, exponent = exponential(limit(abs(x), 0, 10) * -2)
    high, low = value.times(power(exponent))
    dividend, divisor = ordered_sum(1, -high).plus(-low), ordered_sum(1, high).plus(low)
    return with_sign(x, quotient_of(dividend, divisor).rounded())


def erf(x: Single) -> Single:
    """Return the error function."""
    size = limit(abs(x), 0, 4)
    if size < 0.5:
        is_least = size < 2**-40
        scaled = size * 2**40 if is_least else size
        near = scaled + scaled * polynomial(ERROR, size * size)
        return with_sign(x, scale(near, -40) if is_least else near)
    if size < 1:
        rest = size - 0.75
        slope = rest * polynomial(ERROR_IN_THE_MIDDLE, rest)
        return with_sign(x, from_start(pair(0.71115565, -1.9346363e-08), slope).rounded())
    rest = size - 1
    slope = rest * polynomial(LOG_OF_COMPLEMENT, rest)
    value, exponent = exponential(*from_start(pair(-1.8496056, 5.0369486e-08), slope))
    high, low = value.times(power(exponent))
    return with_sign(x, ordered_sum(1, -high).plus(-low).rounded())


def by_pair(x: Single, y: Pair) -> Single:
    """Return x * y, rounded."""
    high, low = exact_product(x, y.high)
    return high + (low + x * y.low)


def gelu(x: Single) -> Single:
    """Return x times the normal distribution at x."""
    if abs(x) < 2**-30:
        return x * 0.5
    size = limit(abs(x), 0, 14)
    value, exponent = exponential(*exact_product(size, size).times(-0.5))
    if size < 0.25:
        tail = ordered_sum(0.5, -(size * polynomial(TAIL_NEAR_0, size * size)))
    else:
        quotient = quotient_of(pair(6), exact_sum(size, 3))
        place = exact_sum(1, -quotient.high).plus(-quotient.low).rounded()
        slope = place * polynomial(TAIL, place)
        rest = from_start(pair(0.4860558, 2.0442275e-09), slope)
        tail = quotient_of(product_of(value, rest), exact_sum(1, size))
    if x < 0:
        return -scale(by_pair(size, tail), exponent)
    high, low = tail.times(power(exponent))
    return x if x > 12 else by_pair(size, ordered_sum(1, -high).plus(-low))


def gelu_tanh(x: Single) -> Single:
    """Return x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x**3)))."""
    if abs(x) < 2**-30:
        return x * 0.5
    size = limit(abs(x), 0, 12)
    inner = product_of(pair(0.071354814, 2.3988325e-09), exact_product(size, size))
    slope = from_start(pair(1.5957692, -4.534068e-08), inner.high).plus(inner.low)
    above, below, exponent = logistic(product_of(pair(size), slope))
    if x < 0:
        return -scale(by_pair(size, below), exponent)
    return x if x > 12 else by_pair(size, above)


# -- logarithms ----------------------------------------------------------------------------------


def split(x: Single) -> tuple[Single, int]:
    """Return a mantissa from sqrt(1/2) to sqrt(2), less 1, and the exponent of a number above 0."""
    exponent = (x.word - ROOT_OF_HALF) >> 23
    return Single(x.word - (exponent << 23)) - 1, exponent


def logarithm(x: Single, lost: Any, exponent: int, low: Any = ZERO) -> Pair:
    """Return log((1 + x + lost + low) * 2**exponent)."""
    x, low = exact_sum(x, lost).plus(low)
    half = exact_product(x, x).times(0.5)
    high, rest = ordered_sum(x, -half.high)
    cube = (x * (half.high * 2)) * polynomial(LOGARITHM, x)
    rest = (rest - half.low) + cube
    rest = rest + (low - low * x)
    rest = rest + exponent * LN2_REST
    return exact_sum(exponent * LN2_TOP, high).plus(rest)


def log(x: Single) -> Single:
    """Return the natural logarithm."""
    if x < 0 or x == 0:
        return NAN if x < 0 else -INFINITE
    if x == INFINITE:
        return x
    mantissa, exponent = split(x)
    return logarithm(mantissa, ZERO, exponent).rounded()


def log1p(x: Single) -> Single:
    """Return log(1 + x)."""
    if x == INFINITE or abs(x) < 2**-26:
        return x
    if x <= -1:
        return NAN if x < -1 else -INFINITE
    total, low = exact_sum(1, x)
    mantissa, exponent = split(total)
    return logarithm(mantissa, low * power(-exponent), exponent).rounded()


def softplus(x: Single) -> Single:
    """Return log(1 + exp(x))."""
    if x == INFINITE:
        return x
    value, exponent = exponential(limit(-abs(x), -105, 0))
    if x < 0 and exponent < -30:
        return scale(value.rounded(), exponent)
    high, low = value.times(power(exponent))
    total, lost = ordered_sum(1, high)
    doubles = int(total > 1.4142135)
    half = power(-doubles)
    of = logarithm(total * half - 1, lost * half, doubles, low * half)
    return exact_sum(x if x > 0 else 0, of.high).plus(of.low).rounded()


def log2(x: Single) -> Pair:
    """Return log2 of a number above 0."""
    less, exponent = split(x)
    ratio = quotient_of(pair(less), exact_sum(2, less))
    square = product_of(ratio, ratio)
    rest = square.high * polynomial(INVERSE_TANH, square.high)
    two_thirds = from_start(pair(0.6666667, -1.9868216e-08), rest)
    tail = product_of(product_of(ratio, square), two_thirds)
    high, low = ordered_sum(ratio.high * 2, tail.high)
    value = product_of(Pair(high, low + (tail.low + ratio.low * 2)), Pair(LOG2_E, LOG2_E_LOW))
    return exact_sum(exponent, value.high).plus(value.low)


def raised(x: Single, y: Single) -> Single:
    """Return x**y."""
    if x.word == ONE.word or not y.size:
        return ONE
    if x.is_nan or y.is_nan:
        return NAN
    numerator, denominator = (0, 1) if y.size == INFINITY else y.value().as_integer_ratio()
    if x < 0 and x.size < INFINITY and denominator > 1:
        return NAN
    if x.size in (0, INFINITY):
        value = INFINITE if (x.size == 0) == (y < 0) else ZERO
    else:
        exponent = product_of(log2(abs(x)), pair(limit(y, -(2**40), 2**40)))
        limited = limit(exponent.high, -151, 128.4)
        low = exponent.low if limited == exponent.high else ZERO
        count = nearest(limited)
        rest = product_of(exact_sum(limited - count, low), Pair(LN2, LN2_LOW))
        value = scale(exponential_of_rest(rest).rounded(), int(count.value()))
    is_odd = denominator == 1 and numerator % 2 == 1
    return -value if is_odd and x.is_negative else value


# -- circles -------------------------------------------------------------------------------------


def quadrant(x: Single) -> tuple[Pair, int]:
    """Return x less the nearest multiple of pi / 2, and the multiple modulo 4.

    The fraction of x / (pi / 2) comes from 96 bits of 2 / pi, in integers of 64 bits.
    """
    if x.size <= 0x3F490FDA:  # pi / 4
        return pair(x), 0
    mantissa = x.size % LEAST_NORMAL + LEAST_NORMAL
    start = min(max((x.size >> 23) - 120, 6), 134)
    window = (TWO_OVER_PI >> (288 - 96 - start)) % 2**96
    turns = ((window * mantissa) >> 32) % 2**64  # 2**62 is a quarter
    count = ((turns + 2**61) >> 62) % 4
    turns = (turns - (count << 62)) % 2**64
    is_negative = turns >= 2**63
    turns = 2**64 - turns if is_negative else turns
    zeros = 64 - turns.bit_length()
    turns <<= zeros
    high = single(turns >> 40) * scale(ONE, -22 - zeros)
    low = single((turns >> 16) % 2**24) * scale(ONE, -46 - zeros)
    rest = product_of(Pair(high, low), Pair(HALF_PI, HALF_PI_LOW))
    return rest.times(-1 if is_negative != (x < 0) else 1), -count if x < 0 else count


def circle(x: Single, turn: int) -> Single:
    """Return the sine, so many quarters on."""
    if x.size == INFINITY:
        return NAN
    (angle, low), quarter = quadrant(x)
    quarter = (quarter + turn) % 4
    square = exact_product(angle, angle)
    half = square.times(0.5)
    if quarter % 2:
        fourth = (square.high * square.high) * polynomial(COSINE, square.high)
        rest = (fourth - half.low) - angle * low
        value = ordered_sum(1, -half.high).plus(rest).rounded()
    else:
        cube = (angle * square.high) * polynomial(SINE, square.high)
        value = angle + (cube + (low - low * half.high))
    return -value if quarter >= 2 else value


def sin(x: Single) -> Single:
    """Return the sine."""
    return x if abs(x) < 2**-12 else circle(x, 0)


def cos(x: Single) -> Single:
    """Return the cosine."""
    return circle(x, 1)


def atan(x: Single) -> Single:
    """Return the arc tangent."""
    if abs(x) < 2**-12:
        return x
    size = limit(abs(x), 2**-13, 2**30)
    if size < 0.41421357:
        quotient, start = quotient_of(pair(size), pair(1)), pair(0)
    elif size > 2.4142135:
        quotient, start = quotient_of(pair(-1), pair(size)), Pair(HALF_PI, HALF_PI_LOW)
    else:
        quotient = quotient_of(exact_sum(size, -1), exact_sum(size, 1))
        start = Pair(HALF_PI, HALF_PI_LOW).times(0.5)
    square = quotient.high * quotient.high
    tail = (quotient.high * square) * polynomial(ARC_TANGENT, square)
    value = exact_sum(start.high, quotient.high).plus(start.low + (quotient.low + tail))
    return with_sign(x, value.rounded())


# -- roots and IEEE's operations -----------------------------------------------------------------


def sqrt(x: Single) -> Single:
    """Return the square root, correctly rounded."""
    return NAN if x < 0 else root(x)


def rsqrt(x: Single) -> Single:
    """Return 1 / sqrt(x)."""
    if x.size == 0 or x < 0:
        return NAN if x.size else with_sign(x, INFINITE)
    if x == INFINITE:
        return ZERO
    exponent = (x.word >> 23) - 127
    is_odd = exponent % 2
    mantissa = Single(x.word % LEAST_NORMAL + ((127 + is_odd) << 23))
    found = root(mantissa)
    inverse, square = 1 / found, exact_product(found, found)
    lost = (((mantissa - square.high) - square.low) * 0.5) * inverse
    unit = exact_product(inverse, found)
    rest = ((1 - unit.high) - unit.low) - inverse * lost
    return scale(inverse + inverse * rest, (is_odd - exponent) // 2)


add, subtract, multiply, divide = operator.add, operator.sub, operator.mul, operator.truediv
UNARY: dict[str, Callable[..., Single]] = {
    **{f.__name__: f for f in (atan, cos, erf, exp, exp2, expm1, gelu, gelu_tanh, log, log1p)},
    "reciprocal": lambda x: 1 / x,
    **{f.__name__: f for f in (rsqrt, sigmoid, sin, softplus, sqrt, tanh)},
}
BINARY: dict[str, Callable[..., Single]] = {
    "add": add,
    "divide": divide,
    "multiply": multiply,
    "subtract": subtract,
    "pow": raised,
}


def compute(function: Callable[..., Single], *operands: Single) -> Single:
    """Return a function of any numbers: of a NaN, NaN; `raised` sees to it."""
    if function is not raised and any(x.is_nan for x in operands):
        return NAN
    return finish(function(*map(flush, operands)))


# -- sums ----------------------------------------------------------------------------------------


def total(terms: Sequence[Single]) -> Single:
    """Return the sum in rows: term i is added to sum i % 64; then the sums are added."""
    sums = [ZERO] * 64
    for place, term in enumerate(terms):
        sums[place % 64] = _plus(sums[place % 64], flush(term))
    a, b, c, d = (sums[place : place + 16] for place in range(0, 64, 16))
    sums = list(map(_plus, map(_plus, a, b), map(_plus, c, d)))
    while len(sums) > 1:
        half = len(sums) // 2
        sums = list(map(_plus, sums[:half], sums[half:]))
    return sums[0]


def dot(x: Sequence[Single], y: Sequence[Single]) -> Single:
    """Return the sum of products, each of which is rounded and flushed."""
    return total([compute(multiply, *pair) for pair in zip(x, y, strict=True)])


def _plus(x: Single, y: Single) -> Single:
    total = finish(x + y)
    return ZERO if not total.size else total


def total_in_packets(terms: Sequence[Single]) -> Single:
    """Return the sum in packets: two vectors of four take turns; the rest is added in turn."""

    def in_turn(numbers: Iterable[Single]) -> Single:
        return reduce(lambda x, y: compute(add, x, y), numbers)

    def fold(vectors: Sequence[Sequence[Single]]) -> list[Single]:
        return list(map(in_turn, zip(*vectors, strict=True)))

    count = len(terms) // 4
    even = count // 2 * 2
    vectors = [terms[4 * place : 4 * place + 4] for place in range(count)]
    turns = [fold(vectors[start:even:2]) for start in (0, 1) if even]
    four = fold([*([fold(turns)] if turns else []), *vectors[even:]])
    halves = [in_turn((four[0], four[2])), in_turn((four[1], four[3]))] if four else []
    first = [in_turn(halves)] if halves else []
    found = in_turn([*first, *terms[4 * count :]]) if terms else ZERO
    return found if found.size else ZERO


# -- operators of models -------------------------------------------------------------------------


def exponential_of_softmax(x: Single) -> Single:
    """Return exp of a number up to 0, as softmaxes and attentions have it."""
    if x < -87.336540:
        return ZERO
    count = nearest(x * 1.44269504)
    rest = (x - count * 0.693359375) + count * 2.12194440e-4
    value = polynomial(SOFTMAX, rest)
    return scale((value * rest * rest + rest) + 1, int(count.value()))


def softmax(row: Sequence[Single]) -> list[Single]:
    """Return the exponentials of the distances to the largest, times 1 / their sum in rows."""
    largest = max(row)
    powers = [exponential_of_softmax(compute(subtract, x, largest)) for x in row]
    inverse = compute(divide, ONE, total(powers))
    return [compute(multiply, x, inverse) for x in powers]


def layer_normalization(
    row: Sequence[Single], epsilon: Single, scales: Sequence[Single], biases: Sequence[Single]
) -> list[Single]:
    """Return the distances to the mean, times 1 / deviation, times a scale, plus a bias."""
    size = single(len(row))
    mean = compute(divide, total(row), size)
    rest = [compute(subtract, x, mean) for x in row]
    variance = compute(divide, dot(rest, rest), size)
    deviation = compute(sqrt, compute(add, variance, epsilon))
    inverse = compute(divide, ONE, deviation)
    pairs = zip(rest, scales, strict=True)
    scaled = (compute(multiply, compute(multiply, x, inverse), s) for x, s in pairs)
    return [compute(add, x, bias) for x, bias in zip(scaled, biases, strict=True)]
