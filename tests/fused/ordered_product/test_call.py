"""Ordered float products: the kernel and plain XLA have the definition's bits; maps and exports."""

import jax
import jax.export
import numpy as np
import pytest

from dmlax._core import exact, ordered_products
from dmlax._export import export
from support import needs_kernels
from support.calls import ordered_product as calls

pytestmark = pytest.mark.oldest


def test_xla_has_the_bits_of_the_definition():
    assert not [*calls.mismatches("xla", 1000, 1012)]


@needs_kernels
def test_kernels_have_the_bits_of_the_definition():
    assert not [*calls.mismatches("native_cpu", 1000, 1060)]


@needs_kernels
@pytest.mark.parametrize("rows", [1, 3, 12, 25])
def test_a_row_has_the_same_bits_beside_any_others(rows):
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(2, 25, 130)), rng.normal(size=(2, 130, 70))
    x, y = np.float32(x), np.float32(y)
    multiply = jax.jit(ordered_products.multiply_matrices)
    found = multiply(x[:1, :rows], y[:1, :, 3:40])
    np.testing.assert_array_equal(found, np.asarray(multiply(x, y))[:1, :rows, 3:40])


@needs_kernels
@pytest.mark.parametrize("axes", [(0, None), (None, 1), (1, 0)])
def test_a_map_has_the_bits_of_a_loop(axes):
    rng = np.random.default_rng(5)
    shapes = [(2, 4, 66), (2, 66, 9)]
    x, y = (
        np.float32(rng.normal(size=shape if axis is None else np.insert(shape, axis, 3)))
        for shape, axis in zip(shapes, axes, strict=True)
    )
    multiply = jax.jit(ordered_products.multiply_matrices)
    mapped = jax.jit(jax.vmap(ordered_products.multiply_matrices, axes))
    assert calls.TARGET in mapped.lower(x, y).as_text()
    for i, found in enumerate(mapped(x, y)):
        pair = (
            z if axis is None else np.take(z, i, axis) for z, axis in zip((x, y), axes, strict=True)
        )
        np.testing.assert_array_equal(found, multiply(*pair))


@needs_kernels
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_a_convolution_has_the_bits_of_plain_xla(groups, monkeypatch):
    rng = np.random.default_rng(groups)
    x = np.float32(rng.normal(size=(2, 6, 9, 8)))
    w = np.float32(rng.normal(size=(12, 6 // groups, 3, 2)))
    windows = {"window_strides": (2, 1), "padding": ((1, 2), (0, 1)), "rhs_dilation": (1, 2)}

    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, **windows, feature_group_count=groups)

    program = jax.jit(exact.of(convolve))
    assert calls.TARGET in program.lower(x, w).as_text()
    found = program(x, w)
    monkeypatch.setattr(ordered_products, "kernels", {})
    jax.clear_caches()
    plain = jax.jit(exact.of(convolve))
    assert calls.TARGET not in plain.lower(x, w).as_text()
    np.testing.assert_array_equal(found, plain(x, w))
    jax.clear_caches()


@needs_kernels
def test_an_export_for_all_platforms_has_no_kernel_and_one_for_a_cpu_keeps_it():
    x, y = np.ones((1, 3, 5), np.float32), np.ones((1, 5, 7), np.float32)
    multiply = jax.jit(ordered_products.multiply_matrices)
    portable = jax.export.export(multiply)(x, y)
    assert calls.TARGET not in portable.mlir_module()
    kept = export(multiply, platform="cpu")(x, y)
    assert calls.TARGET in kept.mlir_module()
    np.testing.assert_array_equal(portable.call(x, y), kept.call(x, y))


def test_no_terms_are_zero_and_no_rows_are_none():
    multiply = jax.jit(ordered_products.multiply_matrices)
    none = multiply(np.ones((2, 3, 0), np.float32), np.ones((2, 0, 4), np.float32))
    np.testing.assert_array_equal(none, np.zeros((2, 3, 4)))
    for shape in ((0, 3), (2, 0)):
        x, y = np.ones((*shape, 5), np.float32), np.ones((shape[0], 5, 4), np.float32)
        assert multiply(x, y).shape == (*shape, 4)
