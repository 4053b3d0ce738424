"""Bounds of the exponential function, in integers."""

import math
from fractions import Fraction


def exp_bounds(x: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """exp(x) between two fractions: a series in fixed point, squared back."""
    halvings = max(math.ceil(abs(x)).bit_length() + 1, 0)
    bits = digits + 4 * halvings + 3 * math.ceil(abs(x)) + 32
    one = 1 << bits
    reduced = x / (1 << halvings)  # at most 1/2 in magnitude
    scaled = math.floor(reduced * one)
    term = total = one
    error = 2  # in units of the last place: of `reduced`, and of every division below
    index = 1
    while term not in (0, -1):
        term = (term * scaled >> bits) // index
        total += term
        error += 2
        index += 1
    error += 4  # what remains of the series is below its last term
    low, high = Fraction(total - error, one), Fraction(total + error, one)
    for _ in range(halvings):
        low = Fraction(math.floor(low * low * one), one)
        high = Fraction(math.ceil(high * high * one), one)
    return low, high
