"""Accumulators, values and scales of every magnitude, on and beside the ties; what few become."""

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from grading import near_ties

from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import quantize
from dmlax_conformance.oracle.exact_floats.single import Single, single
from support import draw, requantized, wild_floats

Accumulators = tuple[np.ndarray, Sequence[np.ndarray]]  # accumulators and their three scales
N = 4_000
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
EDGES = np.array([INT_MIN, INT_MIN + 1, -1, 0, 1, INT_MAX - 1, INT_MAX], np.int32)

# An accumulator, 2 k + 1, and the mantissas of three scales: see `nearest`.
NEAREST = [
    (1277107, 1, 15160019, 13801287, 15188917),
    (2478183, 1, 9189793, 9891337, 12804844),
    (961811, 1, 14725311, 14042789, 11305448),
    (4040761, 3, 12354845, 14447395, 13666237),
    (3586679, 3, 9953857, 15150983, 10249051),
    (4926537, 5, 14985593, 13098879, 10994108),
    (4810287, 5, 10398753, 9907951, 5634382),
    (35652071, 15, 12791803, 8920363, 15416578),
    (20180641, 17, 12020757, 14555933, 11806960),
    (151036747, 131, 13462499, 13362303, 11789585),
    (342746533, 141, 9543857, 11677757, 15399886),
]


def in_range(seed: int, n: int = N) -> Accumulators:
    """Accumulators and scales whose quotients lie within +-300, any exponents and signs."""
    rng = np.random.default_rng(seed)
    sw, sy = (
        (rng.uniform(1, 2, n) * 2.0 ** rng.integers(-30, 30, n)).astype(np.float32)
        * rng.choice([-1, 1], n).astype(np.float32)
        for _ in range(2)
    )
    accumulator = draw(seed, np.int32, n) >> rng.integers(0, 31, n).astype(np.int32)
    accumulator = np.where(accumulator == 0, 1, accumulator)
    with np.errstate(over="ignore"):
        sx = rng.uniform(-300, 300, n) / accumulator / sw.astype(float) * sy.astype(float)
    return accumulator, (sx.astype(np.float32), sw, sy)


def exact_ties(seed: int, n: int = N) -> Accumulators:
    """accumulator * 2**e / 1 = k + 1/2 for every k in -256..255, scales powers of two."""
    rng = np.random.default_rng(seed)
    odd = rng.integers(-256, 256, n) * 2 + 1
    shift = rng.integers(0, 22, n)
    split = rng.integers(-40, 40, (2, n))
    scales = 2.0 ** split[0], 2.0 ** (split[1] - split[0]), 2.0 ** (split[1] + 1 + shift)
    return (odd << shift).astype(np.int32), [scale.astype(np.float32) for scale in scales]


def wild(seed: int, n: int = N) -> Accumulators:
    return draw(seed, np.int32, n), [wild_floats(seed + k, n) for k in range(1, 4)]


def extremes(seed: int) -> Accumulators:
    """Every edge accumulator with every product of edge scales."""
    scale = np.array([1e-45, -1.1754942e-38, 1.1754944e-38, 1.0, -3.4028235e38], np.float32)
    grid = np.meshgrid(EDGES, scale, scale, scale)
    accumulator, *scales = (x.ravel() for x in grid)
    return accumulator, scales


def nearest() -> Accumulators:
    """Cases as near to a tie as can be: `accumulator * a * b` is 1 off `(2 k + 1) * s * 2**44`."""
    assert all(abs(n * a * b - odd * s * 2**44) == 1 for n, odd, a, b, s in NEAREST)
    accumulator, _, a, b, s = np.array(NEAREST).T
    scales = np.array([a, b, s * 2.0**45], np.float32)
    return accumulator.astype(np.int32), list(scales)


def tiny() -> Accumulators:
    """Every edge accumulator with scales that make it one, one half or less."""
    grid = np.meshgrid(EDGES, np.exp2(np.arange(-34, -30)), 1.0, 1.0)
    accumulator, *scales = (x.ravel() for x in grid)
    return accumulator, [scale.astype(np.float32) for scale in scales]


FAMILIES: dict[str, Callable[[int], Accumulators]] = {
    "wild": wild,
    "in range": in_range,
    "exact ties": exact_ties,
    "extremes": extremes,
}


@functools.cache
def near(count: int) -> Accumulators:
    """Accumulators whose results lie on a tie, or hardly beside it."""
    ties = [t for name in ("float32", "float64", "exact") for t in near_ties.family(name, count, 9)]
    accumulator, *scales = np.array(ties, np.int64).T
    return accumulator.astype(np.int32), [s.astype(np.uint32).view(np.float32) for s in scales]


@functools.cache
def accumulators() -> Accumulators:
    """A thousand accumulators of every family, and their three scales."""
    some = [in_range(1, 200), exact_ties(2, 300), wild(3, 100), near(64), extremes(0)]
    some += [nearest(), tiny()]
    columns = zip(*((a, *scales) for a, scales in some), strict=True)
    accumulator, *scales = (np.concatenate(column) for column in columns)
    return accumulator, scales


@functools.cache
def expected_of(dtype: str, zero: int) -> np.ndarray:
    accumulator, scales = accumulators()
    return requantized(accumulator, scales, zero, dtype)


def float32_product(accumulator: int, words: Sequence[int]) -> floats.Real:
    """`float32(accumulator) * (input * filter / output)`, each step rounded; scales by bits."""
    sx, sw, sy = map(Single, words)
    return floats.decode((single(accumulator) * (sx * sw / sy)).word, "float32")


@functools.cache
def expected_in_float32(dtype: str, zero: int) -> np.ndarray:
    accumulator, scales = accumulators()
    words = zip(*(scale.view(np.uint32).tolist() for scale in scales), strict=True)
    pairs = zip(accumulator.tolist(), words, strict=True)
    products = (float32_product(a, s) for a, s in pairs)
    return np.array([quantize(each, Fraction(1), zero, dtype) for each in products], dtype)
