"""The native nonzero kernel: instruction sets' names, threads, refusals, memory."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._cpu import library

TARGET = "dmlax_nonzero_coordinates_v1"


def test_an_unknown_instruction_set_is_named_and_the_known_ones_are_listed(on_instruction_set):
    code = "from dmlax._cpu import library; print(library.why_not('cpu'))"
    said = on_instruction_set("sse9", code)
    assert said.startswith("DMLAX_NATIVE_ISA names none of what this machine has: ")
    assert said.endswith("portable")


@pytest.mark.parametrize("size", [2**16 - 1, 2**17, 2**20 + 77])
def test_large_inputs_are_shared_between_threads_in_order(size):
    x = np.random.default_rng(size).random(size) < 0.3
    count, rows = dmlax.nonzero_coordinates(x, implementation="native_cpu", fill_value=3)
    wanted = np.full((size, 1), 3, np.uint32)
    wanted[: np.count_nonzero(x)] = np.argwhere(x)
    assert int(count) == np.count_nonzero(x)
    np.testing.assert_array_equal(rows, wanted)


@pytest.mark.parametrize("divisor", [2, 3, 7, 641, 65_535, 65_537, 1_000_003])
def test_divisions_are_right_up_to_the_largest_index(divisor):
    rows = (2**22 + 5) // divisor + 1
    x = np.zeros((rows, divisor), np.uint8)
    chosen = np.unique(np.linspace(0, x.size - 1, 999).astype(np.int64))
    x.reshape(-1)[chosen] = 1
    _, got = dmlax.nonzero_coordinates(x, size=len(chosen), implementation="native_cpu")
    np.testing.assert_array_equal(got, np.stack(np.divmod(chosen, divisor), 1))


def test_vmap_is_one_call_of_the_kernel():
    x = np.random.default_rng(0).random((3, 5, 70)) < 0.5
    mapped = jax.jit(jax.vmap(lambda x: dmlax.nonzero_coordinates(x, implementation="native_cpu")))
    text = mapped.lower(x).as_text()
    assert text.count(TARGET) == 1
    assert "while" not in text
    found = mapped(x)
    for i, image in enumerate(x):
        one = dmlax.nonzero_coordinates(image, implementation="reference")
        np.testing.assert_array_equal(found.count[i], one.count)
        np.testing.assert_array_equal(found.coordinates[i], one.coordinates)


def test_a_named_kernel_exports_where_its_check_is_disabled():
    named = jax.jit(lambda x: dmlax.nonzero_coordinates(x, implementation="native_cpu"))
    allowed = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
    exported = jax.export.export(named, disabled_checks=allowed)(np.ones(9, np.float32))
    assert int(jax.export.deserialize(exported.serialize()).call(np.ones(9, np.float32)).count) == 9


def kernel(x, outputs, sizes):
    """The kernel itself, without what the API checks."""
    assert library.why_not("cpu") is None
    shapes = [jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in outputs]
    call = jax.ffi.ffi_call(TARGET, shapes)
    return call(x, sizes=np.asarray(sizes, np.int64), fill_value=np.uint32(0))


@pytest.mark.parametrize(
    ("x", "outputs", "sizes", "message"),
    [
        (np.ones(4, np.complex64), [(), (4, 1)], [4], "element type is none of this operator's"),
        (np.ones(4, np.int8), [(), (4, 2)], [4], "shapes do not fit one another"),
        (np.ones(4, np.int8), [(), (4,)], [4], "shapes do not fit one another"),
        (np.ones((3, 4), np.int8), [(2,), (2, 4, 1)], [4], "shapes do not fit one another"),
        (np.ones(4, np.int8), [(), (4, 0)], [], "shapes do not fit one another"),
        (np.ones(4, np.int8), [(), (4, 1)], [5], "`sizes` are not those of the input"),
        (np.ones(4, np.int8), [(), (4, 1)], [3], "`sizes` are not those of the input"),
        (np.ones(4, np.int8), [(), (4, 2)], [-2, -2], "`sizes` are not those of the input"),
        (np.ones(4, np.int8), [(), (4, 3)], [2**62, 2**62, 4], "`sizes` are not those"),
        (np.ones(4, np.int8), [(), (4, 2)], [0, 4], "`sizes` are not those of the input"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_read(x, outputs, sizes, message):
    with pytest.raises(Exception, match=f"nonzero_coordinates: .*{message}"):
        jax.block_until_ready(kernel(x, outputs, sizes))


def test_the_page_shows_what_explain_prints():
    page = Path(dmlax.__file__).parents[2] / "docs" / "explain.md"
    x, w = jnp.zeros((1, 1, 3, 3), jnp.uint8), jnp.zeros((1, 1, 2, 2), jnp.int8)
    shown = dmlax.explain(dmlax.convolution_integer, x, w).choices[0]
    assert f"\n{shown}\n" in page.read_text(encoding="utf-8")
