"""Words, arrays and JSON are three forms of one tensor."""

from typing import Any

import numpy as np
import pytest

from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import recipe, tensors
from dmlax_conformance.format.recipe import Cycle, Recipe
from dmlax_conformance.format.tensors import DTYPES, Tensor


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_round_trips(dtype: str) -> None:
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    tensor = Tensor(dtype, (2, 1, 2), (low, high, 1, high // 3))
    assert tensors.decode(tensors.encode(tensor), "") == tensor
    assert tensors.from_numpy(tensors.to_numpy(tensor)) == tensor


def test_strided_and_big_endian_arrays() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert tensors.from_numpy(array) == Tensor("int32", (3, 2), (0, 3, 1, 4, 2, 5))


def test_splitmix64_known_outputs() -> None:
    outputs = recipe.splitmix64(1234567)
    assert [next(outputs) for _ in range(2)] == [6457827717110365317, 3203168211198807973]


def test_recipe_is_kept_and_checked() -> None:
    tensor = tensors.from_recipe("int8", (50,), Recipe(3, -4, 4, 2))
    value = tensors.encode(tensor)
    assert tensors.decode(value, "") == tensor
    assert {-4, 0, 4} <= set(tensor.words) <= set(range(-4, 5))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float16"])
def test_a_cycle_repeats_its_words(dtype: str) -> None:
    words = (0, 1, DTYPES[dtype].high)
    tensor = tensors.from_recipe(dtype, (2, 4), Cycle(words))
    assert tensor.words == (words * 3)[:8]
    assert tensors.decode(tensors.encode(tensor), "") == tensor
    assert tensors.from_recipe(dtype, (2,), Cycle(words)).words == words[:2]


@pytest.mark.parametrize(
    ("dtype", "given", "at"),
    [
        *(("int8", {"data": [1, 128]}, "/data/1"), ("int8", {"data": ["1"]}, "/data/0")),
        *(("int8", {"bits": ["01"]}, ""), ("float16", {"bits": ["3c00", "3C00"]}, "/bits/1")),
        ("float16", {"data": [1]}, ""),
    ],
)
def test_a_broken_cycle_is_refused(dtype: str, given: dict[str, Any], at: str) -> None:
    value = {"dtype": dtype, "sizes": [5], "recipe": {"name": "cycle", **given}}
    with pytest.raises(Malformed) as caught:
        tensors.decode(value, "/x")
    assert caught.value.position == f"/x/recipe{at}"
