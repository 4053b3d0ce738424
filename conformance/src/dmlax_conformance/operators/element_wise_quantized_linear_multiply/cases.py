"""ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import gcd

from .._shared import binary_cases as shared
from .._shared.binary_cases import (
    BinaryTopic,
    Quantization,
    Values,
    mixed,
)
from .._shared.near_ties import MANTISSA, Draw, divisor
from .._shared.systematic import each_pair, each_size
from ..topics import Files

OPERATOR = "element_wise_quantized_linear_multiply"
topics = Files(OPERATOR, BinaryTopic)
FACTORS, APART = shared.FACTORS, shared.APART
SIGNS = ((-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1))
TINY, HUGE = Fraction(2) ** -149, Fraction(2) ** 127
GRID = list(product((-9, -5, -3, -1, 0, 1, 3, 7), (-7, -3, -1, 1, 2, 5, 11)))
ENDS = [(127, 127), (-127, 127), (127, -127), (-127, -127), (1, 1), (-1, 1), (0, 127), (3, 2)]


@topics.file("rounding")
def _rounding(topic: BinaryTopic) -> None:
    topic.add_values(ties())


def ties() -> Iterator[Values]:
    """Yield ties, and quotients beside them."""
    for number, scales in enumerate(((0.5, 1, 1), (0.25, 0.5, -0.75), (-1.5, 1, 1), (3, 5, 2))):
        own = mixed(number, scales)
        own = Quantization(own.scales, (*own.points[:2], (7, -3, 4, 1)[number]), own.dtypes)
        text = f"scales {scales}: ties of both parities and signs"
        yield Values(f"ties-{number + 1}", text, "1 2", "Tie", own, GRID[number::3])
    draw = Draw(11)
    for number in range(3):
        sy, small = draw.odd(20), draw.odd(3)
        own = mixed(number, (Fraction(small * sy, 4), 1.5, sy))
        text = "ties of scales whose ratio no float has"
        yield Values(f"ties-mantissas-{number + 1}", text, "1 2", "Tie", own, GRID[number::3])
    for number, power in enumerate((6, 10, 18)):
        own = mixed(number, (0.5, 1 - Fraction(2) ** -power, 1))
        text = f"2^-{power} of the result beside a tie"
        yield Values(f"beside-{power}", text, "1 2", "Rounding", own, GRID[number::3])


@topics.file("saturation")
def _saturates(topic: BinaryTopic) -> None:
    topic.add_values(saturation())


def saturation() -> Iterator[Values]:
    """Yield products that the clamp decides."""
    for number, power in enumerate((0, -2, -8, -18, -60)):
        own = mixed(number, (1, 1, Fraction(2) ** power))
        text = f"up to 2^{14 - power}: the clamp decides"
        yield Values(f"saturates-{-power}", text, "1 3", "Saturation", own, ENDS)
    for number, sign in enumerate((1, -1)):
        own = mixed(number, (HUGE, HUGE, sign * TINY))
        flags, text = "Saturation OddScale", "the largest quotients there are, and 0"
        pairs = [*ENDS, (0, 0), (1, 0)]
        yield Values(f"saturates-far-{number + 1}", text, "1 3 7", flags, own, pairs)
    for dtype, (point, sign) in product(("int8", "uint8"), ((-100, 1), (100, -1))):
        zero = point if dtype == "int8" else point + 128
        own = Quantization.of(1, 1, 1, points=(128, 0, zero), dtypes=("uint8", "int8", dtype))
        pairs = [(sign * x, y) for x in (100, 67, 1) for y in (2, 3, 1)]
        text = f"the zero point {zero} draws a quotient back into {dtype}"
        yield Values(f"drawn-back-{dtype}-{zero % 256}", text, "1 2 3", "Saturation", own, pairs)
    for number, (za, zb) in enumerate(((0, 127), (255, -128), (0, -128))):
        own = Quantization.of(0.5, 0.5, 2**9, points=(za, zb, 100))
        sides = [[x - z for x in held] for z, held in ((za, (0, 255, 128)), (zb, (-128, 127, 1)))]
        text = f"zero points {za} and {zb}: the largest products"
        yield Values(
            f"extremes-{number + 1}", text, "1", "Extreme", own, [*product(sides[0], sides[1])]
        )


def near_float64() -> Iterator[Values]:
    """Yield near ties that float64 takes for ties."""
    draw, found = Draw(64), 0
    while found < 8:
        x, y, sign = 2 * draw.below(48) + 33, 2 * draw.below(48) + 33, 1 - 2 * draw.below(2)
        scales = _near_64(draw, x * y, sign)
        if scales is not None:
            found += 1
            pairs = [(x, y), (-x, y), (-x, -y), (y, x), (x, 2), (0, y), (1, 1)]
            text, own = "near ties that FLOAT64 takes for ties", mixed(found, scales)
            yield Values(f"float64-{found}", text, "1 2", "NearTieFloat64", own, pairs)


def _near_64(draw: Draw, product: int, sign: int) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return scales that give an odd product of differences 2^-55 of itself from a half.

    The even integer next to the half is the wrong one.
    """
    steps, power = 4 * draw.below(50) + (1 if sign > 0 else 3), 26
    if gcd(steps, product) > 1:
        return None
    divided = -sign * pow(steps << power, -1, product) % product
    divided += (2**23 + draw.below(2**22)) // product * product
    divided += 0 if divided % 2 else product
    whole = ((steps * divided << power) + sign) // product
    factor = divisor(whole, -(-whole // MANTISSA), MANTISSA - 1)
    if not factor:
        return None
    unit = Fraction(2) ** -40
    return factor * unit, Fraction(whole // factor), (divided << power + 1) * unit


@topics.file("scales")
def _scales(topic: BinaryTopic) -> None:
    topic.add_values(_signs())


def _signs() -> Iterator[Values]:
    for number, signs in enumerate(SIGNS):
        scales = [sign * scale for sign, scale in zip(signs, (0.5, 0.75, 1.25), strict=True)]
        text = f"scales {scales[0]:g}, {scales[1]:g} and {scales[2]:g}"
        own = mixed(number, scales)
        yield Values(f"signs-{number + 1}", text, "1 7", "OddScale", own, GRID[number % 3 :: 3])
    extremes: dict[str, tuple[Fraction | float, ...]] = {
        "product-overflows": (HUGE, HUGE / 3 * 2, HUGE),
        "product-vanishes": (TINY * 5, TINY * 3, TINY),
        "tiny-by-huge": (TINY * 3, HUGE, Fraction(2) ** -22),
        "huge-by-tiny": (HUGE, TINY * 5, Fraction(2) ** -21),
        "all-subnormal": (TINY * 2**22, TINY * (2**21 + 1), TINY),
        "all-huge": (HUGE, HUGE * 3 / 2, 2 * HUGE - 2**104),
        "subnormal-over-subnormal": (3, TINY * 3, TINY * 4),
        "subnormal-a": (TINY * (2**22 + 1), 1.5, TINY * 2**23),
        "ratio-overflows": (HUGE, Fraction(2) ** -140, Fraction(2) ** -14),
    }
    for number, (name, three) in enumerate(extremes.items()):
        own, flags = mixed(number, three), "OddScale SpecialFloat"
        text = f"scales {', '.join(f'{float(scale):g}' for scale in three)}"
        yield Values(name, text, "1 7", flags, own, GRID[number % 3 :: 3])


@topics.file("shapes")
def _shapes(topic: BinaryTopic) -> None:
    shared.add_shapes(topic)


@topics.file("invalid")
def _invalid(topic: BinaryTopic) -> None:
    shared.add_invalid(topic)


topics.file("pairs")(each_pair(FACTORS, APART)(shared.add_pair))
topics.file("size-classes")(each_size(shared.add_size))
