"""Accumulators and scales whose exact result is a tie, or so near one that floats err.

For an accumulator, a filter scale and a tie `k + 1/2`, the scales of output and input must have the
ratio `accumulator * filter scale / tie`. The nearest fraction whose parts fit a float32 is the
ratio itself (`exact`), or so near that float64 sees a tie (`float64`); one with shorter parts is so
near that float32 sees a tie (`float32`).
"""

from fractions import Fraction
from math import floor
from random import Random
from typing import NamedTuple

from dmlax_conformance.oracle import exact

LARGEST_PART = {"exact": 2**24 - 1, "float32": 2**13, "float64": 2**24 - 1}
KINDS = (*LARGEST_PART,)


class NearTie(NamedTuple):
    """An accumulator and the bits of three scales."""

    accumulator: int
    input_scale: int
    filter_scale: int
    output_scale: int

    @property
    def scales(self) -> tuple[Fraction, Fraction, Fraction]:
        """The exact values of the three scales."""
        sx, sw, sy = (exact.decode(word, "float32").value for word in self[1:])
        return sx, sw, sy

    @property
    def quotient(self) -> Fraction:
        """The exact result before rounding."""
        sx, sw, sy = self.scales
        return self.accumulator * sx * sw / sy


class Draw(Random):
    """Seeded draws of integers."""

    def odd(self, bits: int) -> int:
        """Return an odd integer of exactly this many bits."""
        return self.getrandbits(bits) | 1 << (bits - 1) | 1


def family(name: str, count: int, seed: int = 1) -> list[NearTie]:
    """Return near ties of a kind."""
    draw = Draw(seed)
    return [sample(name, draw) for _ in range(count)]


def sample(name: str, draw: Draw) -> NearTie:
    """Return a near tie of a kind."""
    while True:
        tie, is_exact = Fraction(draw.randrange(1, 256, 2), 2), name == "exact"
        accumulator = draw.odd(draw.randint(12, 31))
        if is_exact:
            accumulator = tie.numerator * draw.odd(10) << draw.randint(0, 13)
        sw = Fraction(draw.odd(12 if is_exact else 24), 1 << 30)
        ratio = accumulator * sw / tie
        power = Fraction(2) ** (ratio.numerator.bit_length() - ratio.denominator.bit_length() + 1)
        nearest = (ratio / power).limit_denominator(LARGEST_PART[name])
        sx, sy = Fraction(nearest.denominator, 1 << 28), nearest.numerator * power / (1 << 28)
        found = NearTie(draw.choice((1, -1)) * accumulator, *map(float32, (sx, sw, sy)))
        if kind(found.quotient) == name:
            return found


def kind(quotient: Fraction) -> str:
    """Return the kind of a quotient, or an empty string."""
    tie = floor(abs(quotient)) + Fraction(1, 2)
    if abs(quotient) == tie:
        return "exact"
    for dtype in ("float64", "float32"):
        if exact.nearest(exact.exactly(abs(quotient)), dtype).value == tie:
            return dtype
    return ""


def float32(value: Fraction) -> int:
    """Return the bits of the nearest float32."""
    return exact.encode(exact.exactly(value), "float32")
