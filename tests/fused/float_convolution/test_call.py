"""Float convolutions and products: one order of sums, maps, gradients, exports, odd operands."""

import itertools
import math
from dataclasses import replace
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._export import export
from dmlax._fused.float_convolution.call import FLOAT_CONVOLUTION
from dmlax._fused.float_convolution.plan import (
    Epilogue,
    FilterShape,
    Geometry,
    PackedFilter,
    pack,
    unpack,
)
from support import needs_kernels
from support.calls import float_convolution as calls

pytestmark = pytest.mark.oldest
SEEDS = range(1000, 1012)


def call(plan, operands, implementation="auto"):
    run = partial(FLOAT_CONVOLUTION.call, plan, implementation=implementation)
    return jax.jit(run)(operands)


@pytest.mark.parametrize("seed", SEEDS)
def test_xla_computes_the_definition(seed):
    drawn = calls.draw(seed)
    found = call(drawn.plan, drawn.operands, "xla")
    found = np.moveaxis(found, -1, 1) if drawn.plan.geometry.output_last else found
    wanted = calls.wanted(drawn)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * max(1, np.abs(wanted).max()))


@needs_kernels
def test_kernels_have_the_bits_of_the_definition():
    assert not [*calls.mismatches("native_cpu", 1000, 1040)]


@needs_kernels
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_long_lines_of_few_columns(columns, stride):
    rng = np.random.default_rng([columns, stride])
    image, filter, residual, factor, bias = (
        np.asarray(rng.integers(-99, 99, shape) / 64, np.float32)
        for shape in [(2, 2, 3, 500), (columns, 2, 2, 7), (2, columns, 4, 500 // stride)]
        + [(columns,)] * 2
    )
    end = (500 // stride - 1) * stride + 7 - 500 - 4
    geometry = Geometry((1, stride), ((1, 1), (4, end)), (1, 1), False, False)
    plan, operands = FLOAT_CONVOLUTION.plan(
        *map(jnp.asarray, (image, filter, factor, bias, residual)),
        output_sizes=residual.shape[2:],
        geometry=geometry,
        epilogue=Epilogue("clip", -3.0, 5.0),
    )
    found = call(plan, operands, "native_cpu")
    drawn = calls.Drawn(plan, operands, image, filter, residual)
    padded = replace(plan, geometry=geometry._replace(padding=((1, 1), (4, max(0, end)))))
    np.testing.assert_array_equal(found, calls.wanted(drawn._replace(plan=padded)))


@needs_kernels
@pytest.mark.parametrize("channels", [2, 5, 8, 13, 17, 24])
@pytest.mark.parametrize(("height", "width", "stride"), [(1, 40, 1), (2, 31, 2), (3, 9, 1)])
def test_depthwise_images_lower_than_their_windows(channels, height, width, stride):
    rng = np.random.default_rng([channels, width])
    image, filter, residual, factor, bias = (
        np.asarray(rng.integers(-99, 99, shape) / 64, np.float32)
        for shape in [(2, channels, height, width), (channels, 1, 5, 5)]
        + [(2, channels, height, (width - 1) // stride + 1)]
        + [(channels,)] * 2
    )
    for is_last, has_factor in itertools.product((False, True), repeat=2):
        moved = (np.moveaxis(x, 1, -1) if is_last else x for x in (image, residual))
        x, addend = (jnp.asarray(np.ascontiguousarray(array)) for array in moved)
        plan, operands = FLOAT_CONVOLUTION.plan(
            *(x, filter, factor if has_factor else None, bias, addend),
            output_sizes=residual.shape[2:],
            groups=channels,
            geometry=Geometry((1, stride), ((2, 2), (2, 2)), (1, 1), is_last, is_last),
            epilogue=Epilogue("clip", -3.0, 5.0),
        )
        found = np.asarray(call(plan, operands, "native_cpu"))
        found = np.moveaxis(found, -1, 1) if is_last else found
        drawn = calls.Drawn(plan, operands, image, filter, residual)
        np.testing.assert_array_equal(found, calls.wanted(drawn))


@needs_kernels
def test_a_window_of_a_very_long_step():
    x, filter = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3), np.float32)
    geometry = Geometry((2**31 - 1,), ((0, 0),), (1,), False, False)
    plan, operands = FLOAT_CONVOLUTION.plan(
        jnp.asarray(x), jnp.asarray(filter), output_sizes=(1,), geometry=geometry
    )
    np.testing.assert_array_equal(call(plan, operands, "native_cpu"), [[[3]]])


@needs_kernels
@pytest.mark.parametrize("window", [(1, 2), (1, 3), (1, 1, 2)])
def test_padding_that_keeps_the_number_of_pixels(window):
    ones = (1,) * len(window)
    for size in itertools.product(range(1, 4), repeat=len(window)):
        for ends in itertools.product(range(3), repeat=len(window)):
            result = tuple(s + e - k + 1 for s, e, k in zip(size, ends, window, strict=True))
            line = result[-1] + window[-1] - 1
            if min(result) < 1 or math.prod(size[:-1]) * line != math.prod(result):
                continue
            rng = np.random.default_rng([*size, *ends])
            plan, operands = FLOAT_CONVOLUTION.plan(
                jnp.asarray(rng.normal(size=(1, *size, 2)), np.float32),
                jnp.asarray(rng.normal(size=(3, 2, *window)), np.float32),
                output_sizes=result,
                geometry=Geometry(ones, tuple((0, end) for end in ends), ones),
            )
            found = [call(plan, operands, name) for name in ("native_cpu", "xla")]
            text = f"{size} padded by {ends}"
            np.testing.assert_allclose(*found, rtol=0, atol=2e-5, err_msg=text)


@needs_kernels
@pytest.mark.parametrize("seed", SEEDS)
def test_images_have_the_bits_of_each_alone_and_of_a_map(seed):
    drawn = calls.draw(seed)
    plan, operands = drawn.plan, drawn.operands
    whole = np.asarray(call(plan, operands))
    residuals = operands.residual is not None
    axes = operands._replace(
        input=0, filter=None, factor=None, bias=None, residual=0 if residuals else None
    )
    singles = operands._replace(
        input=operands.input[:, None],
        residual=operands.residual[:, None] if residuals else None,
    )
    alone = replace(
        plan,
        input=plan.input._replace(shape=(1, *plan.input.shape[1:])),
        sizes=(1, *plan.sizes[1:]),
    )
    mapped = jax.jit(jax.vmap(partial(FLOAT_CONVOLUTION.call, alone), (axes,)))(singles)
    np.testing.assert_array_equal(np.asarray(mapped)[:, 0], whole)
    for i, image in enumerate(operands.input):
        part = operands._replace(
            input=image[None], residual=operands.residual[i : i + 1] if residuals else None
        )
        np.testing.assert_array_equal(call(alone, part)[0], whole[i])


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_xla(seed):
    drawn = calls.draw(seed)

    def total(implementation, operands):
        result = FLOAT_CONVOLUTION.call(drawn.plan, operands, implementation)
        return (result * jnp.cos(jnp.arange(result.size).reshape(result.shape))).sum()

    found, wanted = (
        jax.jit(jax.grad(partial(total, name)))(drawn.operands) for name in ("auto", "xla")
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, wanted)


@needs_kernels
def test_a_map_over_filters():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 6, 5), np.float32)
    filters = rng.standard_normal((3, 7, 5, 3, 3), np.float32)
    geometry = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1))

    def convolve(filter):
        options = {"output_sizes": (6, 6), "geometry": geometry}
        return FLOAT_CONVOLUTION.call(*FLOAT_CONVOLUTION.plan(jnp.asarray(x), filter, **options))

    mapped = jax.jit(jax.vmap(convolve))(filters)
    for filter, result in zip(filters, mapped, strict=True):
        np.testing.assert_array_equal(jax.jit(convolve)(filter), result)


@needs_kernels
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_an_export_for_a_cpu(is_symbolic):
    matrix = np.random.default_rng(0).standard_normal((5, 70), np.float32)
    packed = PackedFilter.pack(matrix, is_transposed=True)

    def multiply(x):
        return FLOAT_CONVOLUTION.call(*FLOAT_CONVOLUTION.plan(x, packed, output_sizes=()))

    x = np.random.default_rng(1).standard_normal((9, 5), np.float32)
    rows = jax.export.symbolic_shape("n")[0] if is_symbolic else 9
    exported = export(multiply, platform="cpu")(jax.ShapeDtypeStruct((rows, 5), np.float32))
    assert b"dmlax_float_convolution_v1" in exported.mlir_module_serialized
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(again.call(x), jax.jit(multiply)(x))


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [((130, 7, 3, 3), 1), ((6, 2, 5), 3), ((70, 1, 2, 2), 70), ((1, 4), 1), ((64, 0), 1)],
)
@pytest.mark.parametrize("library", [np, jnp])
def test_unpacking_is_the_inverse_of_packing(sizes, groups, library):
    shape, filter = FilterShape(sizes, groups), np.random.default_rng(0).standard_normal(sizes)
    packed = pack(shape, library.asarray(filter, np.float32))
    assert packed.shape == shape.packed
    np.testing.assert_array_equal(unpack(shape, packed), filter.astype(np.float32))


@needs_kernels
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_padding_multiplies_zeros(value):
    """A tap outside of the image is 0, so that NaN and infinity times it are NaN."""
    filter = np.ones((1, 1, 3), np.float32)
    filter[..., 0] = value
    geometry = Geometry((1,), ((1, 1),), (1,), False, False)
    made = FLOAT_CONVOLUTION.plan(
        jnp.ones((1, 1, 4), np.float32), jnp.asarray(filter), output_sizes=(4,), geometry=geometry
    )
    assert np.isnan(call(*made)[0, 0, 0])
    assert not np.isfinite(call(*made)).any()


@pytest.mark.parametrize(("rows", "depth", "columns"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_operands(rows, depth, columns):
    operands = jnp.ones((rows, depth), np.float32), jnp.ones((columns, depth), np.float32)
    made = FLOAT_CONVOLUTION.plan(*operands, bias=jnp.full(columns, 2.0), output_sizes=())
    np.testing.assert_array_equal(call(*made), np.full((rows, columns), 2 + depth, np.float32))
