"""Exact floats: kernels and plain XLA have the bits of the definitions; maps and exports."""

import functools

import jax
import jax.export
import numpy as np
import pytest

from dmlax import reproducible
from dmlax._core import exact, float_functions, ordered_products
from dmlax._cpu import library
from dmlax._export import export
from dmlax._fused.exact_floats.cpu import lowering as native_cpu
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


FUNCTIONS = native_cpu._FUNCTIONS
EDGES = [0, 1, 2**-126, 2**-127, 2**-30, 2**-26, 2**-12, 0.25, 0.5, 0.75, 1, 12, 88.8, 105, 3e38]


def floats_of(seed, count):
    """Random bits, usual numbers, and both sides of the sequences' limits."""
    rng = np.random.default_rng(seed)
    edges = np.float32([*EDGES, np.inf, np.nan])
    near = edges.view(np.uint32)[:, None] + np.arange(-2, 3).astype(np.uint32)
    parts = (
        rng.integers(0, 2**32, count, np.uint32),
        np.float32(rng.normal(size=count) * np.exp2(rng.integers(-8, 7, count))).view(np.uint32),
        *(near.ravel() ^ np.uint32(sign) for sign in (0, 1 << 31)),
    )
    return np.concatenate(parts).view(np.float32)


@needs_kernels
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_have_the_bits_of_plain_xla(function):
    apply = jax.jit(functools.partial(float_functions.apply, function))
    x = floats_of(1, 50_001)
    assert "dmlax_exact_function" in apply.lower(x).as_text()
    plain = jax.jit(functools.partial(float_functions._apply, function))
    np.testing.assert_array_equal(calls.bits(apply(x)), calls.bits(plain(x)))


@needs_kernels
@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_of_every_float_have_the_bits_of_plain_xla(function):
    apply = jax.jit(functools.partial(float_functions.apply, function))
    plain = jax.jit(functools.partial(float_functions._apply, function))
    step = 1 << 24
    for first in range(0, 1 << 32, step):
        x = np.arange(first, first + step, dtype=np.uint32).view(np.float32)
        np.testing.assert_array_equal(calls.bits(apply(x)), calls.bits(plain(x)))


@needs_kernels
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5, 7)])
def test_functions_take_any_shape_and_map(shape):
    x = np.float32(np.random.default_rng(0).normal(size=shape))
    wanted = float_functions._apply(float_functions.erf, x)
    apply = functools.partial(float_functions.apply, float_functions.erf)
    np.testing.assert_array_equal(apply(x), wanted)
    np.testing.assert_array_equal(jax.jit(apply)(x), wanted)
    if shape and shape[0]:
        mapped = jax.jit(jax.vmap(apply))
        assert "dmlax_exact_function" in mapped.lower(x).as_text()
        np.testing.assert_array_equal(mapped(x), wanted)


def sum_is_that_of_the_definition(seed):
    """Whether the sums along an axis of columns, and of a row, are right."""
    rng = np.random.default_rng(seed)
    _, y = calls.draw(seed)
    found = jax.jit(functools.partial(ordered_products.total, axes=(1,)))(y)
    wanted = calls.wanted_sums(y)
    at = int(rng.integers(y.shape[2]))
    (row,) = np.asarray(jax.jit(reproducible.sum)(y[0, :, at]))[None, None]
    return (
        np.array_equal(calls.bits(found), calls.bits(wanted)),
        np.array_equal(calls.bits(row), calls.bits(wanted[0, :, at])),
    )


def test_sums_have_the_bits_of_the_definition():
    bad = [seed for seed in range(2000, 2048) if not all(sum_is_that_of_the_definition(seed))]
    assert not bad


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((3, 4, 5, 6), (1, 2)), ((3, 4, 5, 6), (0, 2)), ((70, 3), (0,)), ((2, 200), (1,)), ((3,), ())],
)
def test_sums_of_any_axes_have_the_bits_of_plain_xla(shape, axes, monkeypatch):
    x = np.float32(np.random.default_rng(3).normal(size=shape))
    total = jax.jit(functools.partial(ordered_products.total, axes=axes))
    mapped = jax.jit(jax.vmap(functools.partial(ordered_products.total, axes=axes)))
    found, both = total(x), mapped(np.stack([x, -x]))
    if axes and not library.why_not("cpu"):
        assert "dmlax_ordered_sum" in total.lower(x).as_text()
    monkeypatch.setattr(ordered_products, "kernels", {})
    jax.clear_caches()
    plain = jax.jit(functools.partial(ordered_products.total, axes=axes))
    assert "dmlax_ordered_sum" not in plain.lower(x).as_text()
    np.testing.assert_array_equal(found, plain(x))
    np.testing.assert_array_equal(both[1], plain(-x))
    jax.clear_caches()


def test_sums_of_nothing_are_zero_and_nothing_has_no_sum():
    for shape, axes, wanted in (((2, 0, 3), (1,), (2, 1, 3)), ((0, 4), (1,), (0, 1))):
        total = ordered_products.total(np.ones(shape, np.float32), axes)
        np.testing.assert_array_equal(total, np.zeros(wanted))
