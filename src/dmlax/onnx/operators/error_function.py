"""The error function of float32 with ONNX Runtime's bits, on the host.

MLAS computes it by fused multiply-adds: near 0 an odd polynomial, elsewhere 1 - exp(-polynomial).
"""

import numpy as np
from numpy.typing import ArrayLike

_FLOAT = np.float32
_LARGEST = _FLOAT(3.925)  # the result of a larger argument is 1
_SPLIT = _FLOAT(0.921875)
_SMALL = (
    -5.99104969e-4,
    4.99339588e-3,
    -2.67667342e-2,
    1.12818025e-1,
    -3.76124859e-1,
    1.28379151e-1,
)
_BIG = (
    1.72948930e-5,
    -3.83208680e-4,
    3.88393435e-3,
    -2.42545605e-2,
    1.06777847e-1,
    6.34846687e-1,
    1.28717512e-1,
)
_EXPONENTIAL = (1.38319808e-3, 8.37550033e-3, 4.16689515e-2, 1.66664466e-1, 4.99999851e-1, 1.0, 1.0)
_LOWEST = _FLOAT(-88.3762626647949)  # the lowest argument of an exponential
_PER_LOGARITHM = _FLOAT(1.44269504088896341)  # 1 / log 2
_LOGARITHM = (_FLOAT(-6.93145752e-1), _FLOAT(-1.42860677e-6))  # -log 2, in two parts
_ROUNDING = _FLOAT(1.25829120e7)  # a float32 whose last bit is worth 1


def erf(x: np.ndarray) -> np.ndarray:
    """The error function of every element; NaN stays."""
    size = np.minimum(np.abs(np.asarray(x, _FLOAT)), _LARGEST)
    near = multiply_add(polynomial(_SMALL, size * size), size, size)
    is_far = size > _SPLIT
    far = np.where(is_far, size, _FLOAT(0))
    power = multiply_add(polynomial(_BIG, far), far, far)
    value = np.where(is_far, _FLOAT(1) - _exponential(np.maximum(_LOWEST, -power)), near)
    return np.asarray(np.copysign(value, x), _FLOAT)


def _exponential(x: np.ndarray) -> np.ndarray:
    """exp(x): a polynomial of the remainder after a multiple of log 2."""
    count = multiply_add(_PER_LOGARITHM, x, _ROUNDING) - _ROUNDING
    rest = x
    for part in _LOGARITHM:
        rest = multiply_add(count, part, rest)
    value: np.ndarray = polynomial(_EXPONENTIAL, rest) * np.exp2(count)
    return value


def polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """A polynomial by fused multiply-adds, the highest power's coefficient first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = multiply_add(value, x, _FLOAT(coefficient))
    return value


def multiply_add(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> np.ndarray:
    """a * b + c of float32, rounded once.

    A float64 holds the product. Their sum is rounded to odd, so that rounding it again is right.
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), bits + away, bits)
    rounded: np.ndarray = odd.view(np.float64).astype(_FLOAT)
    return rounded
