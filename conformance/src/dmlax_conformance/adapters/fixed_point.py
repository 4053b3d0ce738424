"""Requantization by multipliers, in NumPy's 64-bit integers."""

from typing import Any

import numpy as np


def half_up(x: Any, count: Any) -> Any:
    """Return x / 2**count, halves up."""
    return (x + ((np.int64(1) << count) >> 1)) >> count


def half_away(x: Any, count: Any) -> Any:
    """Return x / 2**count, halves away from zero."""
    return np.sign(x) * half_up(np.abs(x), count)


def multiplier(real: Any) -> tuple[Any, Any]:
    """Return integers of 31 bits and their exponents."""
    mantissa, exponent = np.frexp(np.asarray(real, np.float64))
    value = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    is_one = value == 1 << 31
    value, exponent = np.where(is_one, value >> 1, value), exponent + is_one
    return np.where(exponent < -31, 0, value), np.maximum(exponent, -31)


def scaled(x: Any, real: Any, mode: str) -> Any:
    """Return integers times floats, by the name of a requantization."""
    if mode == "float64":
        product = np.abs(np.asarray(x, np.float64) * real)
        return np.copysign(np.floor(product) + (product % 1 >= 0.5), x)
    return multiplied(np.asarray(x, np.int64), *multiplier(real), mode)


def multiplied(x: Any, value: Any, exponent: Any, mode: str) -> Any:
    """Return integers times multipliers."""
    if mode == "fixed_point_single":
        # A product that is shifted to the left lies beyond every byte as it is.
        return half_up(x * value, np.maximum(31 - exponent, 0))
    second = {"fixed_point_double": half_away, "fixed_point_half_up": half_up}.get(mode)
    if second is None:
        raise ValueError(f"no requantization {mode}")
    left = (x << np.maximum(exponent, 0)).astype(np.int32).astype(np.int64)
    return second(half_up(left * value, 31), np.maximum(-exponent, 0))


def added(x: Any, y: Any, scales: Any, mode: str) -> Any:
    """Return the sum of integers of two float32 scales, in the third."""
    a, b, output = scales
    if mode == "fixed_point_single":
        ratios = np.array([a / output, b / output], np.float32)
        count = 21 - np.frexp(ratios.max())[1].astype(np.int64)
        first, second = np.rint(ratios * 2.0**count).astype(np.int64)
        return half_up(x.astype(np.int64) * first + y.astype(np.int64) * second, count)
    a, b, output = (np.float64(each) for each in scales)
    twice = 2 * max(a, b)
    terms = (scaled(v.astype(np.int64) << 20, s / twice, mode) for v, s in ((x, a), (y, b)))
    return scaled(sum(terms), twice / (output * 2.0**20), mode)


def averaged(total: Any, count: int, real: Any, mode: str) -> Any:
    """Return the means of sums of so many integers."""
    value, exponent = multiplier(real)
    shift = np.minimum(count.bit_length() - 1, 31 + exponent)
    return multiplied(total.astype(np.int64), (value << shift) // count, exponent - shift, mode)
