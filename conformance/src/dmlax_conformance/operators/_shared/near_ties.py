"""Accumulators and scales whose exact result lies on, or hardly beside, a half.

For an input scale `sx`, an output scale `sy` and a wanted tie `k + 1/2`, an accumulator and a
filter scale must multiply to `target = (k + 1/2) * sy / sx`. The three families differ in how
well a product of a 31-bit and a 24-bit integer meets that target:

- `float32`: the filter scale nearest to `target / accumulator`, so float32 sees a tie;
- `float64`: an integer next to the scaled target, divided into two factors that fit, so that
  even float64 sees a tie;
- `exact`: the target is such an integer itself, so that there is a tie.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import floor, prod
from typing import NamedTuple

from ...format.recipe import splitmix64
from . import floats
from .floats import Real, round_half_even
from .rounding import float32_product

LARGEST = 2**31 - 1
MANTISSA = 2**24
TIES = [Fraction(numerator, 2) for numerator in range(1, 256, 2)]


class NearTie(NamedTuple):
    """An accumulator and three scales as float32 bits."""

    accumulator: int
    input_scale: int
    filter_scale: int
    output_scale: int

    @property
    def scales(self) -> tuple[Fraction, Fraction, Fraction]:
        """The exact values of the three scales."""
        sx, sw, sy = (floats.decode(word, "float32").value for word in self[1:])
        return sx, sw, sy

    @property
    def quotient(self) -> Fraction:
        """The exact result before rounding."""
        sx, sw, sy = self.scales
        return self.accumulator * sx * sw / sy


Pair = tuple[int, Fraction]


class Draw:
    """Seeded draws."""

    def __init__(self, seed: int) -> None:
        """Start the generator."""
        self._outputs = splitmix64(seed)

    def below(self, limit: int) -> int:
        """Return an integer from 0 to `limit - 1`."""
        return (next(self._outputs) >> 11) % limit

    def odd(self, bits: int) -> int:
        """Return an odd integer of exactly this many bits."""
        return (1 << (bits - 1)) | self.below(1 << (bits - 1)) | 1


def family(name: str, count: int, seed: int = 1) -> list[NearTie]:
    """Return `count` members of the family `float32`, `float64` or `exact`."""
    return list(islice(_members(name, Draw(seed)), count))


def channels(name: str, scales: tuple[int, int], seed: int) -> Iterator[NearTie]:
    """Yield members that share one input scale and one output scale, given as bits."""
    sx, sy = (floats.decode(word, "float32").value for word in scales)
    draw = Draw(seed)
    seen: set[Pair] = set()
    for accumulator, sw in _PAIRS[name](sx, sy, draw):
        signed = -accumulator if draw.below(2) else accumulator
        member = NearTie(signed, scales[0], float32(sw), scales[1])
        if kind(member.quotient) == name and (accumulator, sw) not in seen:
            seen.add((accumulator, sw))
            yield member


def shared_scales(name: str, draw: Draw) -> tuple[int, int]:
    """Draw an input scale and an output scale that suit the family, as float32 bits."""
    mx, my = draw.odd(24), draw.odd(24)
    if name == "exact":
        mx = draw.odd(3 + draw.below(12))
        my = mx * draw.odd(3 + draw.below(8))
    two = Fraction(2)
    return float32(mx * two ** -(28 + draw.below(5))), float32(my * two ** -(18 + draw.below(5)))


def kind(quotient: Fraction) -> str:
    """Return the family that a quotient belongs to, or an empty string."""
    tie = floor(abs(quotient)) + Fraction(1, 2)
    if abs(quotient) == tie:
        return "exact"
    for dtype in ("float64", "float32"):
        if floats.nearest(Real(False, abs(quotient)), dtype).magnitude == tie:
            return dtype
    return ""


def float32(value: Fraction) -> int:
    """Return the bits of the nearest float32."""
    return floats.encode(floats.exactly(value), "float32")


def _members(name: str, draw: Draw) -> Iterator[NearTie]:
    while True:
        scales = shared_scales(name, draw)
        yield from islice(channels(name, scales, draw.below(2**53)), 16)


def _float32_pairs(sx: Fraction, sy: Fraction, draw: Draw) -> Iterator[Pair]:
    while True:
        for tie in TIES:
            accumulator = draw.odd(12 + draw.below(20))
            yield accumulator, tie * sy / sx / accumulator


def _float64_pairs(sx: Fraction, sy: Fraction, draw: Draw) -> Iterator[Pair]:
    ties = sorted(TIES, key=lambda _: draw.below(2**32))
    for tie in ties:
        for bits in (54, 55):
            target, unit = _scaled(tie * sy / sx, bits)
            for whole in (floor(target), floor(target) + 1):
                factor = divisor(whole, -(-whole // LARGEST), MANTISSA)
                if factor:
                    yield whole // factor, factor * unit


def _exact_pairs(sx: Fraction, sy: Fraction, draw: Draw) -> Iterator[Pair]:
    for tie in TIES:
        target = tie * sy / sx
        power_of_two = target.denominator & (target.denominator - 1) == 0
        whole = target.numerator // (target.numerator & -target.numerator)  # its odd part
        factor = divisor(whole, -(-whole // LARGEST), 1 << draw.below(13))
        if power_of_two and factor:
            spare = 31 - (whole // factor).bit_length()
            accumulator = (whole // factor) << draw.below(spare + 1)
            yield accumulator, target / accumulator


_PAIRS: dict[str, Callable[[Fraction, Fraction, Draw], Iterator[Pair]]] = {
    "float32": _float32_pairs,
    "float64": _float64_pairs,
    "exact": _exact_pairs,
}


def _scaled(target: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return the target in units of a power of two that give it this many bits, and the unit."""
    size = target.numerator.bit_length() - target.denominator.bit_length()
    unit = Fraction(2) ** (size - bits + 1)
    return target / unit, unit


@lru_cache(maxsize=1 << 16)
def divisor(whole: int, low: int, high: int) -> int:
    """Return the largest divisor in low..high made of small primes, or 0."""
    primes = Counter(_factors(whole))
    if prod(primes.elements()) < low:
        return 0
    found = {1}
    for prime, times in primes.items():
        powers = [prime**power for power in range(times + 1)]
        found = {power * divisor for power in powers for divisor in found}
        found = {divisor for divisor in found if divisor <= high}
    return max((divisor for divisor in found if divisor >= low), default=0)


def _factors(whole: int) -> Iterator[int]:
    """Yield the small primes that divide an integer, each as often as it does."""
    for prime in _PRIMES:
        while whole % prime == 0:
            whole //= prime
            yield prime


_PRIMES = [n for n in range(2, 1000) if all(n % d for d in range(2, int(n**0.5) + 1))]


def float32_rounds(tie: NearTie) -> int:
    """Return what float32 makes of a member, with one combined multiplier."""
    return round_half_even(float32_product(tie.accumulator, tie[1:]).value)


def float64_rounds(tie: NearTie) -> int:
    """Return what float64 makes of a member, with one combined multiplier."""
    sx, sw, sy = map(float, tie.scales)
    return round(tie.accumulator * (sx * sw / sy))
