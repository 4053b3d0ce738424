"""The Hopper kernel of nonzero_coordinates: lowered on a CPU, refused where it cannot run."""

import jax.numpy as jnp
import pytest

from dmlax._core.arguments import Aval
from dmlax._operators.nonzero.cuda import lowering
from dmlax._operators.nonzero.plan import nonzero_plan


def plan(shape=(4, 5), dtype="float32", **options):
    options = {"size": None, "coordinate_rank": None, "fill_value": 0} | options
    devices = {"axis_name": None, "axis_size": 1} | options
    return nonzero_plan(Aval(jnp.dtype(dtype), shape), **devices)


def test_without_a_gpu_it_says_so():
    why = lowering.why_not(plan(), "cuda")
    assert why is not None
    assert any(words in why for words in ("attached", "JAX 0.11", "absl"))


def test_several_devices_are_refused(attached):
    split = plan(axis_name="x", axis_size=2)
    assert "several devices" in lowering.why_not(split, "cuda")


def test_nothing_is_launched_for_an_empty_input(attached):
    result = lowering.run(plan((0, 3), size=2, fill_value=9), jnp.zeros((0, 3)))
    assert int(result.count) == 0
    assert result.coordinates.tolist() == [[9, 9], [9, 9]]


@pytest.mark.parametrize("elements", [1, 2**18, 2**22, 2**23, 2**26])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_blocks_of_every_tile_fit_a_multiprocessor(written, elements, size):
    from dmlax._operators.nonzero.cuda import kernel

    given = plan((elements,), f"int{8 * size}")
    tile = kernel.Tile.of(given, 132)
    shared = 4 * kernel._Shared.words(tile) + 1024  # bytes, and those that each block takes
    assert tile.blocks // 132 * shared <= 228 * 1024
    assert tile.items <= 32  # a lane has the bits of one
    assert 32 * tile.items * size % 512 == 0  # a warp copies as much at once
