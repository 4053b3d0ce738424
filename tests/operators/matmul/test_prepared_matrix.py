"""PreparedMatrix: what it shows, equality, exports and their version."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import prepared_weights
from dmlax._core.panels import pack_panels
from dmlax._cpu import library
from support import assert_same, draw
from support.calls.matmul import sums

pytestmark = pytest.mark.oldest

A, B = draw(1, np.uint8, (3, 5)), draw(2, np.int8, (2, 5, 4))
ZEROS = np.int8([1, 2, 3, 4])
PREPARED = dmlax.prepare_matrix(B, b_zero_point=ZEROS)


def multiply(a, b):
    return dmlax.matrix_multiply_integer(a, b, a_zero_point=9)


def test_it_shows_what_was_prepared():
    assert (PREPARED.dtype, PREPARED.shape) == (np.int8, (2, 5, 4))
    assert_same(PREPARED.packed, B.swapaxes(-1, -2))
    assert_same(PREPARED.sums, B.sum(-2, dtype=np.int32))
    assert_same(PREPARED.zero_point, ZEROS)
    assert repr(PREPARED) == "PreparedMatrix(int8[2,5,4])"


@pytest.mark.parametrize("shape", [(5,), (5, 4), (2, 5, 4)], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_unpacked_and_prepared_again_it_is_the_same(shape, dtype):
    b = draw(3, dtype, shape)
    first = dmlax.prepare_matrix(b, b_zero_point=7)
    assert_same(first.unpack(), b)
    assert dmlax.prepare_matrix(first.unpack(), b_zero_point=first.zero_point) == first
    assert jax.jit(dmlax.prepare_matrix)(jnp.asarray(b)) == dmlax.prepare_matrix(b)
    assert first != dmlax.prepare_matrix(b)
    assert first != "another"


@pytest.mark.parametrize("shape", [(5,), (5, 4), (2, 65, 70)], ids=str)
def test_panels_are_those_of_its_rows(shape):
    b = draw(4, np.uint8, shape)
    rows = dmlax.prepare_matrix(b, b_zero_point=7)
    panels = dmlax.prepare_matrix(b, b_zero_point=7, packing="panels")
    assert (rows.packing, panels.packing) == ("rows", "panels")
    assert_same(panels.packed, pack_panels(panels.weights.panels, np.asarray(rows.packed)))
    assert_same(panels.unpack(), b)
    assert panels != rows
    assert pickle.loads(pickle.dumps(panels)) == panels


@pytest.mark.parametrize(("machine", "packing"), [(False, "rows"), (True, "panels")])
def test_auto_packs_panels_where_the_machine_reads_them(machine, packing, monkeypatch):
    monkeypatch.setattr(library, "reads_panels", lambda: machine)
    assert dmlax.prepare_matrix(B, packing="auto").packing == packing
    assert dmlax.prepare_matrix(B).packing == "rows"


def test_a_packing_is_one_of_three():
    with pytest.raises(dmlax.SpecError) as caught:
        dmlax.prepare_matrix(B, packing="blocks")
    assert (caught.value.code, caught.value.field) == ("option", "packing")
    assert str(caught.value) == (
        "prepare_matrix: packing is 'blocks', expected one of auto, panels, rows"
    )


def test_a_zero_that_is_known_is_dropped():
    assert dmlax.prepare_matrix(B, b_zero_point=jnp.zeros(4, jnp.int8)).zero_point is None


def test_an_export_carries_it():
    exported = jax.export.export(jax.jit(multiply))(A, PREPARED)
    again = jax.export.deserialize(exported.serialize())
    assert_same(again.call(A, PREPARED), sums(A, B, 9, ZEROS))


def test_another_version_is_refused():
    static = (1, "int8", (5, 4))
    with pytest.raises(dmlax.SpecError) as caught:
        prepared_weights.decode(dmlax.PreparedMatrix, prepared_weights.encode(static))
    assert str(caught.value) == (
        "PreparedMatrix: version is 1, expected 2: prepare the matrix again with this version of "
        "dmlax"
    )


def test_stacked_ones_are_scanned_and_mapped():
    matrices = [draw(seed, np.int8, (5, 5)) for seed in range(3)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *map(dmlax.prepare_matrix, matrices))
    got = jax.vmap(multiply, (None, 0))(A, stacked)
    assert_same(got, np.stack([sums(A, b, 9) for b in matrices]))
    with pytest.raises(dmlax.SpecError, match=r"BTensor is prepared, its packed is int8\[3,5,5\]"):
        multiply(A, stacked)


def test_a_matrix_of_symbolic_sizes_is_not_prepared():
    (rows,) = jax.export.symbolic_shape("k")
    with pytest.raises(dmlax.SpecError, match="expected static sizes"):
        jax.eval_shape(dmlax.prepare_matrix, jax.ShapeDtypeStruct((rows, 3), np.int8))


def test_explain_finds_one_that_a_program_packs():
    given = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (A, B))
    text = str(dmlax.explain(lambda a, b: multiply(a, dmlax.prepare_matrix(b)), *given))
    assert "prepare_matrix" in text


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("rows", [1, 4])
def test_the_largest_products_of_few_rows_are_exact(rows, value):
    depth = 1003
    a, b = np.full((rows, depth), 255, np.uint8), np.full((depth, 9), value, np.int8)
    found = dmlax.matrix_multiply_integer(a, dmlax.prepare_matrix(b))
    assert_same(found, np.full((rows, 9), 255 * value * depth, np.int32))
