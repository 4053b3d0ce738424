"""Accumulators, values and scales of every magnitude, on and beside the ties."""

import numpy as np

from support import draw, wild_floats

N = 4_000
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
EDGES = np.array([INT_MIN, INT_MIN + 1, -1, 0, 1, INT_MAX - 1, INT_MAX], np.int32)


def in_range(seed, n=N):
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


def exact_ties(seed, n=N):
    """accumulator * 2**e / 1 = k + 1/2 for every k in -256..255, scales powers of two."""
    rng = np.random.default_rng(seed)
    odd = rng.integers(-256, 256, n) * 2 + 1
    shift = rng.integers(0, 22, n)
    split = rng.integers(-40, 40, (2, n))
    scales = 2.0 ** split[0], 2.0 ** (split[1] - split[0]), 2.0 ** (split[1] + 1 + shift)
    return (odd << shift).astype(np.int32), [scale.astype(np.float32) for scale in scales]


def wild(seed, n=N):
    return draw(seed, np.int32, n), [wild_floats(seed + k, n) for k in range(1, 4)]


def extremes(seed):
    """Every edge accumulator with every product of edge scales."""
    scale = np.array([1e-45, -1.1754942e-38, 1.1754944e-38, 1.0, -3.4028235e38], np.float32)
    grid = np.meshgrid(EDGES, scale, scale, scale)
    accumulator, *scales = (x.ravel() for x in grid)
    return accumulator, scales


FAMILIES = {"wild": wild, "in range": in_range, "exact ties": exact_ties, "extremes": extremes}


def quotients(dtype):
    """Values and scales of every magnitude, quotients beside every tie, and the special values."""
    if dtype is np.int32:
        x, scale = draw(40, np.int32, 3_000), wild_floats(41, 3_000)
        scale[:2_000] = np.random.default_rng(42).uniform(1, 2, 2_000) * np.exp2(
            np.random.default_rng(43).integers(-4, 31, 2_000)
        )
        return np.concatenate([x, EDGES]), np.concatenate(
            [scale, np.full(EDGES.size, 2.0**24)]
        ).astype(np.float32)
    scale = wild_floats(44, 3_000, dtype)
    wide = scale.astype(np.float64)
    k = np.random.default_rng(45).integers(-300, 300, 3_000) + 0.5
    with np.errstate(over="ignore"):
        near = (k * wide).astype(dtype)
        above = np.nextafter(near, dtype(np.inf))
    x = np.concatenate([near, above, wild_floats(46, 3_000, dtype)])
    x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)])
    scale = np.concatenate([scale] * 3 + [np.array([1, -1, 1, 1, 1], dtype)])
    return x, scale
