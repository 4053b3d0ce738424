"""Classes of values of a sum of two quantized tensors."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from .binary_cases import (
    DIFFERENCES,
    Pair,
    Quantization,
    Values,
    drawn_scale,
    mixed,
    near_ties,
)
from .near_ties import Draw

SIGNS = ((-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1))
ONE, TINY, HUGE = Fraction(1), Fraction(2) ** -149, Fraction(2) ** 127
ODD = [-125, -7, -5, -3, -1, 1, 3, 5, 7, 125]
SMALL = [0, 1, -1, 127, -127, 2, -60]
SIDES: dict[str, int] = {"a": 0, "b": 1}


def _turned(
    side: str,
    large: Fraction | float,
    small: Fraction | float,
    sy: Fraction | float,
    pairs: list[Pair],
    number: int,
) -> tuple[Quantization, list[Pair]]:
    """Give A, or B, the large scale and the first of each pair."""
    if side == "a":
        return mixed(number, (large, small, sy)), pairs
    return mixed(number, (small, large, sy)), [(y, x) for x, y in pairs]


def ties() -> Iterator[Values]:
    """Yield ties, and quotients beside them."""
    grid = list(product(range(-5, 6), range(-5, 6)))
    for number, scales in enumerate(((0.5, 0.5, 1), (0.25, 0.75, 1), (-1.5, 1, 1), (3, 5, -2))):
        name, text = f"ties-{number + 1}", f"scales {scales}: ties of both parities and signs"
        own = mixed(number, scales)
        points = (*own.points[:2], (7, -3, 4, 1)[number])
        own = Quantization(own.scales, points, own.dtypes)
        yield Values(name, text, "1 2", "Tie", own, grid[number::4] + grid[:8])
    draw = Draw(11)
    for number in range(2):
        sy = draw.odd(20)
        own = mixed(number, (Fraction(3 * sy, 4), Fraction(5 * sy, 2), sy))
        text = "ties of scales whose ratios no float has"
        yield Values(f"ties-mantissas-{number + 1}", text, "1 2", "Tie", own, grid[number::5])
    # The last places before a half that two roundings would lose.
    for number, power in enumerate((6, 10, 18)):
        own = mixed(number, (0.5, Fraction(2) ** -power, 1))
        pairs = list(product(ODD, [1, -1, 0]))
        text = f"2^-{power} beside a tie"
        yield Values(f"beside-{power}", text, "1 2", "Rounding", own, pairs)


def saturation() -> Iterator[Values]:
    """Yield quotients that the clamp limits."""
    ends = [(127, 127), (-127, -127), (100, 100), (-90, -90), (1, 1), (-1, -1), (0, 0), (3, -2)]
    for number, power in enumerate((0, -8, -24, -60)):
        own = mixed(number, (1, 1, Fraction(2) ** power))
        text = f"up to 2^{8 - power}: the clamp decides"
        yield Values(f"saturates-{-power}", text, "1 3", "Saturation", own, ends)
    for number, sign in enumerate((1, -1)):
        own = mixed(number, (HUGE, HUGE, sign * TINY))
        text = "the largest quotients there are"
        yield Values(f"saturates-far-{number + 1}", text, "1 3", "Saturation OddScale", own, ends)
    for dtype, (point, sign) in product(("int8", "uint8"), ((-100, 1), (100, -1))):
        zero = point if dtype == "int8" else point + 128
        own = Quantization.of(1, 1, 1, points=(128, 0, zero), dtypes=("uint8", "int8", dtype))
        pairs = [(sign * x, sign * y) for x in (127, 60, 1) for y in (127, 73, 100, 27)]
        text = f"the zero point {zero} draws a quotient back into {dtype}"
        yield Values(f"drawn-back-{dtype}-{zero % 256}", text, "1 2 3", "Saturation", own, pairs)
    for number, (za, zb) in enumerate(((0, 127), (255, -128))):
        own = Quantization.of(0.5, 0.5, 1.5, points=(za, zb, 100))
        sides = [[x - z for x in held] for z, held in ((za, (0, 255, 128)), (zb, (-128, 127, 0)))]
        text = f"zero points {za} and {zb}: the largest differences"
        yield Values(
            f"extremes-{number + 1}", text, "1", "Extreme", own, [*product(sides[0], sides[1])]
        )


def far_apart() -> Iterator[Values]:
    """Yield ties in one term, and the other far below."""
    pairs = list(product(ODD, SMALL))
    for number, (power, side) in enumerate(product((25, 54, 149), SIDES)):
        sign = -1 if number % 3 == 2 else 1
        own, turned = _turned(side, 0.5, sign * Fraction(2) ** -power, 1, pairs, number)
        text = f"2^-{power} breaks ties, or is nothing where its operand is the zero point"
        name = f"sticky-{power}-{side}"
        yield Values(name, text, "1 2", "Tie NearTieFloat64", own, turned[number % 7 :])
    for number, (side, sign) in enumerate(product(SIDES, (1, -1))):
        own, turned = _turned(side, HUGE * 3 / 2, sign * TINY, sign * HUGE, pairs, number)
        text = "scales 2^276 apart, with ties"
        name = f"apart-276-{side}-{'plus' if sign > 0 else 'minus'}"
        yield Values(name, text, "1 2 7", "Tie OddScale", own, turned[number * 3 :])
    for number, side in enumerate(SIDES):
        pairs = [(0, y) for y in SMALL + ODD]
        own, turned = _turned(side, HUGE, -TINY, TINY * 2, pairs, 3 * number)
        text = "the large term is nothing, so the one 2^276 below decides"
        yield Values(f"nothing-{side}", text, "1 7", "OddScale", own, turned)


def cancelling() -> Iterator[Values]:
    """Yield terms that cancel."""
    equal = [(x, x) for x in (*ODD, 0, 64, 2)]
    scales = (Fraction(3, 4), HUGE, TINY * 3, HUGE)
    for number, (scale, sy) in enumerate(zip(scales, (ONE, HUGE, TINY, ONE), strict=True)):
        own = mixed(number, (scale, -scale, sy))
        text, flags = "terms that cancel to 0, or nearly", "OddScale"
        pairs = equal + [(x, x + 1) for x in (1, -4, 60)]
        yield Values(f"cancels-{number + 1}", text, "1 7", flags, own, pairs)
    draw = Draw(5)
    for number in range(3):
        odd = draw.odd(23)
        own = mixed(number, (Fraction(odd + 1), Fraction(-odd), 2))
        text = "terms of 23 bits that cancel to a tie"
        yield Values(f"cancels-to-tie-{number + 1}", text, "1 2", "Tie", own, equal)
    own = mixed(2, (2 * HUGE - 2**104, -(2 * HUGE - 2**104 * 3), HUGE / 2**22))
    text = "terms that overflow FLOAT32 before they cancel"
    yield Values("cancels-overflow", text, "1", "OddScale", own, equal)


def near_float32() -> Iterator[Values]:
    """Yield near ties that float32 takes for ties."""
    draw = Draw(32)
    for number in range(6):
        scales = [drawn_scale(draw, power) for power in (0, -(number % 3), 1)]
        sa, sb, sy = map(float, scales)
        quotients = (DIFFERENCES[:, None] * sa + DIFFERENCES[None, :] * sb) / sy
        own = mixed(number, scales)
        pairs = near_ties(np.asarray(quotients), 16)
        text = "near ties that FLOAT32 takes for ties"
        yield Values(f"float32-{number + 1}", text, "1 2", "NearTieFloat32", own, pairs)


def near_float64() -> Iterator[Values]:
    """Yield near ties that float64 takes for ties."""
    draw, found = Draw(64), 0
    while found < 8:
        member = _near_64(draw)
        if member is not None:
            found += 1
            scales, pair = member
            own = mixed(found, scales)
            pairs = [pair, (-pair[0], -pair[1]), (0, pair[1]), (pair[0], 0), (1, 1), (-2, 1)]
            text = "near ties that FLOAT64 takes for ties"
            yield Values(f"float64-{found}", text, "1 2", "NearTieFloat64", own, pairs)


def _near_64(draw: Draw) -> tuple[tuple[Fraction, Fraction, Fraction], Pair] | None:
    """Return scales and differences whose quotient is 2^-56 of itself from a half."""
    my, x, steps = draw.odd(24), 2 * draw.below(30) + 33, 2 * draw.below(20) + 1
    shift = 27
    power = shift + 23 + x.bit_length() - (steps * my).bit_length()
    target = steps * my << power
    ma = (target + (x << shift - 1)) // (x << shift)
    rest = target - (x * ma << shift) + (1 if draw.below(2) else -1)
    y = next((y for y in range(127, 20, -2) if rest % y == 0), 0)
    if not y or abs(rest) // y >= 2**24 or ma >= 2**24 or rest == 0:
        return None
    mb, unit = abs(rest) // y, Fraction(2) ** -50
    scales = ((ma << shift) * unit, mb * unit, (my << power + 1) * unit)
    return scales, (x, y if rest > 0 else -y)


def signs() -> Iterator[Values]:
    """Yield odd scales."""
    pairs = [*product((-9, -4, 1, 6, 11), (-7, -2, 3, 8))]
    for number, signs in enumerate(SIGNS):
        scales = [sign * scale for sign, scale in zip(signs, (0.5, 0.75, 1.25), strict=True)]
        text = f"scales {scales[0]:g}, {scales[1]:g} and {scales[2]:g}"
        name = f"signs-{number + 1}"
        yield Values(name, text, "1 7", "OddScale", mixed(number, scales), pairs)
    for number, (p, q, r) in enumerate(((1, 3, 2), (2**22, -1, 2**20 + 1))):
        own = mixed(number, (p * TINY, q * TINY, r * TINY))
        text, flags = "subnormal scales alone", "OddScale SpecialFloat"
        yield Values(f"subnormal-{number + 1}", text, "1 7", flags, own, pairs)
    for number, side in enumerate(SIDES):
        own, turned = _turned(side, 1, 2**20 * TINY, 2**21 * TINY, [(0, y) for y in ODD], number)
        text, flags = "a subnormal scale decides", "OddScale SpecialFloat"
        yield Values(f"subnormal-{side}", text, "1 7", flags, own, turned)
