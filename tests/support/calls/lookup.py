"""Random lookups for the kernels, and what they should give by NumPy's indexing."""

import functools
from dataclasses import dataclass

import jax
import numpy as np

import dmlax
from support import draw, random_calls


@dataclass(frozen=True)
class Call:
    """One call."""

    operator = "quantized_lookup"
    x: np.ndarray
    table: np.ndarray

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        return dmlax.quantized_lookup(self.x, self.table, implementation=implementation)

    def expected(self) -> np.ndarray:
        """The entries are in the order of the values."""
        return self.table[self.x.astype(int) - np.iinfo(self.x.dtype).min]


def call(seed: int) -> Call:
    """A random call of no, few or some thousand elements."""
    rng = np.random.default_rng(seed)
    most = (3, 20, 200)[seed % 3]
    shape = rng.integers(0 if seed % 7 == 0 else 1, most, int(rng.integers(0, 4))).tolist()
    shape = shape[:2] if most == 200 else shape
    dtypes = rng.choice(["int8", "uint8"], 2)
    return Call(draw(seed + 1, dtypes[0], shape), draw(seed + 2, dtypes[1], 256))


mismatches = functools.partial(random_calls.find_mismatches, call)
