"""Float products in one order of sums, which NumPy computes by the definition."""

from collections.abc import Iterator

import jax
import numpy as np

from dmlax._core import ordered_products
from dmlax._fused.exact_floats import call

assert "cpu" in ordered_products.kernels, call  # the import brings the kernels
TARGET = "dmlax_ordered_product"
_DEPTHS = (0, 1, 2, 3, 9, 15, 16, 17, 31, 33, 47, 49, 63, 64, 65, 100, 128, 200, 576, 1000)
_COLUMNS = (1, 2, 5, 15, 16, 17, 31, 32, 33, 49, 64, 127, 128, 129, 200)
_KINDS = ("normal", "zeros", "least", "subnormal", "tiny", "huge", "not finite", "cancelling")
_LEAST = np.float32(2.0**-126)


def _numbers(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    x = rng.normal(size=shape)
    powers = np.exp2(rng.integers(-3, 4, shape))
    if kind == "zeros":
        x *= rng.random(shape) < 0.3
    elif kind == "least":  # many products and sums are 2**-126, or next to it
        near = 1 + rng.integers(-1, 2, shape) * 2.0**-23
        x = np.sign(x) * 2.0**-63 * powers * near
    elif kind == "subnormal":
        x = np.where(rng.random(shape) < 0.5, x * 2.0**-128, x)
    elif kind == "tiny":
        x *= 2.0**-62 * powers
    elif kind == "huge":
        x *= 2.0**63 * powers
    elif kind == "not finite":
        x[rng.random(shape) < 0.02] = rng.choice([np.nan, np.inf, -np.inf, -np.nan])
    elif kind == "cancelling":
        x = np.round(x) * 2.0 ** -float(rng.integers(40, 64))
    return np.asarray(x, np.float32)


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random matrices [B, M, K] and [B, K, N]."""
    rng = np.random.default_rng(seed)
    batch, rows = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, *range(3, 27), 40]))
    depth, columns = int(rng.choice(_DEPTHS)), int(rng.choice(_COLUMNS))
    first, second = rng.choice(_KINDS, 2) if seed % 2 else [_KINDS[seed // 2 % len(_KINDS)]] * 2
    x = _numbers(rng, str(first), batch, rows, depth)
    return x, _numbers(rng, str(second), batch, depth, columns)


def _settled(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) <= _LEAST, np.float32(0), x)


def wanted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The products by the definition, of which each is a term."""
    x, y = (_flushed(each) for each in (x, y))
    with np.errstate(all="ignore"):
        return _in_lanes(_settled(x[:, :, :, None] * y[:, None]))


def wanted_sums(x: np.ndarray) -> np.ndarray:
    """The sums along the middle axis, which stays, by the definition."""
    return _in_lanes(_flushed(x)[:, None])


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < _LEAST, np.float32(0), x)


def _in_lanes(terms: np.ndarray) -> np.ndarray:
    """The sums along axis 2: term i belongs to lane i % 64, and a tree adds lanes."""
    lanes = np.zeros((64, *terms.shape[:2], *terms.shape[3:]), np.float32)
    with np.errstate(all="ignore"):
        for k in range(terms.shape[2]):
            lanes[k % 64] = _settled(lanes[k % 64] + terms[:, :, k])
        vectors = lanes.reshape(4, 16, *lanes.shape[1:])
        sums = _settled(_settled(vectors[0] + vectors[1]) + _settled(vectors[2] + vectors[3]))
        while len(sums) > 1:
            half = len(sums) // 2
            sums = _settled(sums[:half] + sums[half:])
    return np.where(np.isnan(sums[0]), np.float32(np.nan), sums[0] + np.float32(0))


def bits(x: object) -> np.ndarray:
    """The bits of float32, of which a NaN has one form."""
    array = np.ascontiguousarray(x)
    assert array.dtype == np.float32
    return array.view(np.uint32)


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The products from `first` to `last` that differ from the definition."""
    for seed in range(first, last):
        x, y = draw(seed)
        run = jax.jit(ordered_products.multiply_matrices)
        if implementation == "xla":
            run = jax.jit(ordered_products.multiply_by_rows)
        elif TARGET not in run.lower(x, y).as_text():
            yield f"seed {seed}: no kernel"
        if not np.array_equal(bits(run(x, y)), bits(wanted(x, y))):
            yield f"seed {seed}: {x.shape} {y.shape}"
