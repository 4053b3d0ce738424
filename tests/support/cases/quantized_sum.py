"""Scales of sums of two quantized tensors, where these are hardest; what they become."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from support import draw, wild_floats

N = 4_000


def ordinary(rng: np.random.Generator, low: int, high: int) -> np.ndarray:
    mantissa = rng.integers(2**23, 2**24, N) * rng.choice([-1, 1], N)
    return np.ldexp(mantissa.astype(np.float32), rng.integers(low - 23, high - 23, N))


def powers(rng: np.random.Generator, low: int, high: int) -> np.ndarray:
    return np.ldexp(np.float32(1), rng.integers(low, high, N)) * rng.choice(np.float32([-1, 1]), N)


def near_ties(rng: np.random.Generator, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Scales by which the sum is as near a tie as float32 has it."""
    first, second = (rng.uniform(0.5, 2, N).astype(np.float32) for _ in range(2))
    total = a.astype(float) * first + b.astype(float) * second
    output = (2 * total / (2 * rng.integers(0, 128, N) + 1)).astype(np.float32)
    return first, second, np.where(output == 0, np.float32(1), output)


def cases(seed: int, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    equal, one = ordinary(rng, 0, 30), np.ones(N, np.float32)
    yield "any", ordinary(rng, -8, 3), ordinary(rng, -12, 8), ordinary(rng, 0, 1)
    yield "wild", wild_floats(seed, N), wild_floats(seed + 1, N), wild_floats(seed + 2, N)
    yield "ties", powers(rng, -3, 1), powers(rng, -4, 1), one
    yield "a tie and a little", powers(rng, -3, 1), powers(rng, -140, -20), powers(rng, 0, 1)
    yield "a little and a tie", ordinary(rng, -60, -20), powers(rng, -3, 1), powers(rng, 0, 1)
    yield "cancelled", equal, -np.nextafter(equal, np.float32(0)), ordinary(rng, -20, 3)
    yield "to nothing", equal, -equal, ordinary(rng, -3, 3)
    yield "near ties", *near_ties(rng, a, b)


def rounded_fraction(
    a: int, b: int, scales: Sequence[float], zero_points: Sequence[int], dtype: DTypeLike
) -> int:
    first, second, output = (Fraction(float(scale)) for scale in scales)
    total = (int(a) - int(zero_points[0])) * first + (int(b) - int(zero_points[1])) * second
    limits = np.iinfo(dtype)
    return min(max(round(total / output) + int(zero_points[2]), limits.min), limits.max)


def operands(dtype: DTypeLike) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Bytes of uint8 and int8, zero points of both and of a sum; some values are their own."""
    a, b = draw(1, np.uint8, N), draw(2, np.int8, N)
    rng = np.random.default_rng(3)
    zero_points = [
        np.where(rng.random(N) < 0.2, a, draw(4, np.uint8, N)),
        np.where(rng.random(N) < 0.2, b, draw(5, np.int8, N)),
        draw(6, dtype, N),
    ]
    return a, b, zero_points


def sums(dtype: DTypeLike) -> Iterator[tuple[str, list[np.ndarray], np.ndarray]]:
    """A name, the scales and the rounded sums of every case, of the same operands."""
    a, b, zero_points = operands(dtype)
    for name, *scales in cases(7, a.astype(int) - zero_points[0], b.astype(int) - zero_points[1]):
        rows = zip(a, b, zip(*scales, strict=True), zip(*zero_points, strict=True), strict=True)
        wanted = [rounded_fraction(*row, dtype) for row in rows]
        assert len(set(wanted)) > 100, name
        yield name, scales, np.array(wanted, dtype)
