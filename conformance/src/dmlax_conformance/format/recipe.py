"""Seeded integers for tensors too large to print, from SplitMix64 and nothing else."""

from collections.abc import Iterator, Mapping
from itertools import count, cycle, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_MASK = (1 << 64) - 1
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Recipe(NamedTuple):
    """One element in `one_in` is drawn from `low..high`; the others are 0."""

    seed: int
    low: int
    high: int
    one_in: int = 1


class Sparse(NamedTuple):
    """Zeros, but for these values at these row-major indices, which ascend."""

    places: tuple[int, ...]
    values: tuple[int, ...]


class Cycle(NamedTuple):
    """These words over and over; any dtype has them."""

    words: tuple[int, ...]


def splitmix64(seed: int) -> Iterator[int]:
    """Yield the 64-bit outputs of SplitMix64."""
    for number in count(1):
        yield _mixed(seed + number * _GAMMA & _MASK)


def expand(recipe: Recipe | Cycle, length: int) -> tuple[int, ...]:
    """Return the first elements."""
    if isinstance(recipe, Cycle):
        return tuple(islice(cycle(recipe.words), length))
    numbers: npt.NDArray[Any] = np.arange(1, length + 1, dtype=np.uint64)
    z = _mixed(numbers * _GAMMA + np.uint64(recipe.seed & _MASK))  # unsigned arrays wrap
    is_drawn = (z >> 32) % min(recipe.one_in, 1 << 32) == 0
    steps = (z & 0xFFFFFFFF) % min(recipe.high - recipe.low + 1, 1 << 32)
    dtype = np.int64 if recipe.low < 0 else np.uint64
    drawn = steps.astype(dtype) + dtype(recipe.low)
    return tuple(np.where(is_drawn, drawn, dtype(0)).tolist())


def _mixed(z: Any) -> Any:
    z = (z ^ (z >> 30)) * _FIRST & _MASK
    z = (z ^ (z >> 27)) * _SECOND & _MASK
    return z ^ (z >> 31)


def encode(recipe: Recipe | Sparse) -> dict[str, Any]:
    """Return the JSON form; the seed is a string, since it may need 64 bits."""
    if isinstance(recipe, Sparse):
        return {"name": "sparse", "places": [*recipe.places], "values": [*recipe.values]}
    return {
        "name": "splitmix64",
        "seed": str(recipe.seed),
        "low": recipe.low,
        "high": recipe.high,
        "one_in": recipe.one_in,
    }


def decode(value: Mapping[str, Any]) -> Recipe | Sparse:
    """Return the recipe of its JSON form."""
    if value["name"] == "sparse":
        return Sparse(tuple(value["places"]), tuple(value["values"]))
    return Recipe(int(value["seed"]), value["low"], value["high"], value["one_in"])
