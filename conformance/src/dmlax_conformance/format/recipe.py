"""Seeded integers for tensors too large to print, from SplitMix64 and nothing else."""

from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from typing import Any, NamedTuple

_MASK = (1 << 64) - 1


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
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def expand(recipe: Recipe | Cycle, count: int) -> tuple[int, ...]:
    """Return the first `count` elements."""
    if isinstance(recipe, Cycle):
        return tuple(islice(cycle(recipe.words), count))
    return tuple(_element(recipe, z) for z in islice(splitmix64(recipe.seed), count))


def _element(recipe: Recipe, z: int) -> int:
    if (z >> 32) % recipe.one_in:
        return 0
    return recipe.low + (z & 0xFFFFFFFF) % (recipe.high - recipe.low + 1)


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
