"""Random calls of the nonzero coordinates, whose rows end anywhere in a word or a chunk."""

from collections.abc import Iterator

import numpy as np

import dmlax
from support import coordinates, padded_rows

_DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"]


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The eager calls of these seeds that are not NumPy's."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        x = _sparse(rng)
        rows = coordinates(x)
        size = int(rng.choice([x.size, len(rows) // 2, len(rows), len(rows) + 3]))
        count, got = dmlax.nonzero_coordinates(
            x, size=size, fill_value=9, implementation=implementation
        )
        if int(count) != len(rows) or not np.array_equal(got, padded_rows(rows, size, 9)):
            yield f"seed {seed}: {x.dtype}{list(x.shape)}, {len(rows)} rows of {size}"


def _sparse(rng: np.random.Generator) -> np.ndarray:
    """Zeros, of both signs if it has floats, and other values at a few or most places."""
    shape = [int(rng.integers(1, 8)) for _ in range(rng.integers(0, 5))]
    elements = int(rng.choice([5, 63, 64, 65, 1000, 33_000, 300_000]))
    shape.insert(int(rng.integers(0, len(shape) + 1)), max(1, elements // int(np.prod(shape))))
    keep = rng.random(shape) < rng.choice([0, 0.01, 0.5, 0.99, 1])
    x = np.where(keep, rng.integers(1, 100, shape), 0).astype(str(rng.choice(_DTYPES)))
    return np.where(keep | (rng.random(shape) < 0.5), x, -x) if x.dtype.kind == "f" else x
