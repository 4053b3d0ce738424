"""Requantization by a fixed-point multiplier, in Python's integers and its float64."""

import fractions
import math

import numpy as np


def multiplier(real: float) -> tuple[int, int]:
    """The integer of 31 bits and the exponent of a float64."""
    mantissa, exponent = math.frexp(real)
    value = math.floor(fractions.Fraction(abs(mantissa)) * 2**31 + fractions.Fraction(1, 2))
    if value == 1 << 31:
        value, exponent = value >> 1, exponent + 1
    if exponent < -31:
        return 0, 0
    value, exponent = (2**31 - 1, 30) if exponent > 30 else (value, exponent)
    return int(math.copysign(value, real)), exponent


def wrap(x: int) -> int:
    """An int32, modulo 2**32."""
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def high(x: int, value: int, exponent: int) -> int:
    """The product's high word, before the shift to the right."""
    return wrap((wrap(x << max(exponent, 0)) * value + (1 << 30)) >> 31)


def half_away(x: int, count: int) -> int:
    """x / 2**count, halves away from zero."""
    rounded = (abs(x) + (1 << count >> 1)) >> count
    return rounded if x >= 0 else -rounded


def half_up(x: int, count: int) -> int:
    """x / 2**count, halves up."""
    return (x + (1 << count >> 1)) >> count


def once(x: int, value: int, exponent: int) -> int:
    """The exact product, halves up; beyond int32 it saturates."""
    rounded = (x * value + (1 << (30 - exponent))) >> (31 - exponent)
    return min(max(rounded, -(2**31)), 2**31 - 1)


def float64(x: int, real: float) -> int:
    """The float64 product, halves away from zero."""
    exact = fractions.Fraction(abs(x * real))
    return int(math.copysign(math.floor(exact + fractions.Fraction(1, 2)), x * real))


def requantize_mean(x: int, count: int, scales: tuple[float, float]) -> int:
    """The mean of a sum of integers, by a multiplier that is divided by the count."""
    value, exponent = multiplier(float(scales[0]) / float(scales[1]))
    shift = min(count.bit_length() - 1, 31 + exponent)
    value, exponent = (value << shift) // count, exponent - shift
    return half_away(high(x, value, exponent), max(-exponent, 0))


def requantize_sum(x: int, y: int, scales: tuple[float, float, float], mode: str) -> int:
    """The sum of two integers of float32 scales in the output's scale."""
    a, b, output = (float(scale) for scale in scales)
    if mode == "fixed_point_single":
        first, second = (float(np.float32(scale) / np.float32(output)) for scale in (a, b))
        shift = 21 - math.frexp(max(first, second))[1]
        first, second = (round(ratio * 2.0**shift) for ratio in (first, second))
        return (x * first + y * second + (1 << (shift - 1))) >> shift
    twice = 2 * max(a, b)
    terms = (requantize(v << 20, s / twice, mode) for v, s in ((x, a), (y, b)))
    return requantize(sum(terms), twice / (2**20 * output), mode)


def scale(x: int, value: int, exponent: int, mode: str) -> int:
    """An integer times a multiplier, by the name of the public mode."""
    if mode == "fixed_point_single":
        return once(x, value, exponent)
    last = {"fixed_point_double": half_away, "fixed_point_half_up": half_up}[mode]
    return last(high(x, value, exponent), max(-exponent, 0))


def requantize(x: int, real: float, mode: str) -> int:
    """An integer times a float64, by the name of the public mode."""
    return float64(x, real) if mode == "float64" else scale(x, *multiplier(real), mode)
