"""PreparedFilter: what it shows, equality, pickles, and exports and their version."""

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax
from support import assert_same, draw, sums_of_products
from support.cases.convolution import LAYOUTS

pytestmark = pytest.mark.oldest

X, W = draw(1, np.uint8, (1, 4, 5, 5)), draw(2, np.int8, (4, 2, 2, 3))
PREPARED = dmlax.prepare_filter(W, filter_zero_point=np.int8([1, 2, 3, 4]), group_count=2)
REMEDY = "PreparedFilter: version is {}, expected {}: prepare the filter again with this version"


def convolve(x, filter):
    return dmlax.convolution_integer(x, filter, input_zero_point=9)


def test_it_shows_what_was_prepared():
    assert (PREPARED.dtype, PREPARED.shape, PREPARED.layout) == (np.int8, (4, 2, 2, 3), "OIHW")
    assert PREPARED.group_count == 2
    assert_same(PREPARED.packed, W.transpose(0, 2, 3, 1).reshape(4, -1))
    assert_same(PREPARED.sums, W.sum((1, 2, 3), dtype=np.int32))
    assert_same(PREPARED.zero_point, np.int8([1, 2, 3, 4]))


@pytest.mark.parametrize("order", [*LAYOUTS.values(), ("NWC", "WIO", "NWC")], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_unpacked_and_prepared_again_it_is_the_same(order, dtype):
    w = draw(3, dtype, (2, 3, 4, 5)[: len(order[0])])
    first = dmlax.prepare_filter(w, filter_zero_point=7, dimension_numbers=order)
    assert first.layout == order[1]
    assert_same(first.unpack(), w)
    again = dmlax.prepare_filter(
        first.unpack(),
        filter_zero_point=first.zero_point,
        group_count=first.group_count,
        dimension_numbers=first.dimension_numbers,
    )
    assert again == first


def test_layouts_are_those_of_lax():
    numbers = lax.conv_dimension_numbers((1,) * 4, (1,) * 4, LAYOUTS["odd"])
    assert dmlax.prepare_filter(W, dimension_numbers=numbers).dimension_numbers == numbers


@pytest.mark.parametrize(
    "other",
    [
        dmlax.prepare_filter(W, filter_zero_point=np.int8([1, 2, 3, 5]), group_count=2),
        dmlax.prepare_filter(W, group_count=2),
        dmlax.prepare_filter(W, filter_zero_point=np.int8([1, 2, 3, 4])),
        dmlax.prepare_filter(W ^ 1, filter_zero_point=np.int8([1, 2, 3, 4]), group_count=2),
        jax.tree.map(lambda leaf: leaf.astype(jnp.int32), PREPARED),
        "PreparedFilter",
    ],
    ids=["zero point", "no zero point", "groups", "values", "dtypes of leaves", "a text"],
)
def test_equal_is_the_same_static_part_and_the_same_arrays(other):
    same = dmlax.prepare_filter(W, filter_zero_point=np.int8([1, 2, 3, 4]), group_count=2)
    assert same == PREPARED
    assert jax.tree.map(np.asarray, PREPARED) == PREPARED
    assert jax.eval_shape(lambda: PREPARED) == jax.eval_shape(lambda: same)
    assert other != PREPARED


def test_it_has_no_hash_but_its_structure_has():
    with pytest.raises(TypeError, match="unhashable type: 'PreparedFilter'"):
        hash(PREPARED)
    assert len({jax.tree.structure(PREPARED), jax.tree.structure(copy.copy(PREPARED))}) == 1


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_names_no_private_module(protocol):
    data = pickle.dumps(PREPARED, protocol)
    assert b"dmlax" in data
    assert b"dmlax._" not in data
    assert b"jax._src" not in data
    restored = pickle.loads(data)
    assert restored == PREPARED
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(restored))
    assert_same(convolve(X, restored), convolve(X, PREPARED))


def test_shapes_and_tracers_are_copied_as_they_are():
    shapes = jax.eval_shape(lambda: PREPARED)
    assert pickle.loads(pickle.dumps(shapes)) == shapes
    assert_same(jax.jit(lambda p: copy.copy(p).packed)(PREPARED), PREPARED.packed)


def test_the_static_part_is_plain_values():
    _, static = PREPARED.tree_flatten()
    assert b"dmlax" not in pickle.dumps(static)


@pytest.fixture
def another_version(monkeypatch):
    def change():
        monkeypatch.setattr(dmlax.PreparedFilter, "VERSION", dmlax.PreparedFilter.VERSION + 1)

    return change


def exported():
    shapes = jax.eval_shape(lambda: (X, PREPARED))
    return jax.export.export(jax.jit(convolve))(*shapes).serialize()


@pytest.mark.parametrize(
    ("save", "load"),
    [(lambda: pickle.dumps(PREPARED), pickle.loads), (exported, jax.export.deserialize)],
    ids=["pickle", "export"],
)
def test_another_version_is_refused(save, load, another_version):
    data, version = save(), dmlax.PreparedFilter.VERSION
    another_version()
    with pytest.raises(dmlax.SpecError) as caught:
        load(data)
    assert str(caught.value).startswith(REMEDY.format(version, version + 1))
    assert (caught.value.code, caught.value.field) == ("option", "version")


def test_an_export_that_takes_one_is_loaded_and_called():
    loaded = jax.export.deserialize(exported())
    expected = sums_of_products(X, W, 9, np.int8([1, 2, 3, 4]), 2)
    assert_same(loaded.call(X, PREPARED), expected)


def test_an_export_that_takes_one_says_what_loads_it(tmp_path):
    file = tmp_path / "model.export"
    file.write_bytes(exported())
    load = f"import jax; jax.export.deserialize(open({str(file)!r}, 'rb').read())"
    code = "import jax.export\n{}" + load
    before, after = (
        subprocess.run(
            [sys.executable, "-c", code.format(line)], capture_output=True, text=True, check=False
        )
        for line in ("", "import dmlax\n")
    )
    assert "`import dmlax`" in before.stderr.splitlines()[-1]
    assert after.returncode == 0, after.stderr
