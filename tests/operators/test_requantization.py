"""Requantization by multipliers: every lowering against the formulas in Python's integers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
from dmlax import SpecError
from dmlax._core.fixed_point import REQUANTIZATIONS
from support import NATIVE, assert_same
from support.fixed_point import requantize, requantize_mean, requantize_sum, wrap

RNG = np.random.default_rng(0)
IMPLEMENTATIONS = [*NATIVE, "xla", "reference"]
COLUMNS = 300
COEFFICIENTS = RNG.choice(np.array([-128, -3, 1, 2, 64, 127], np.int8), (3, COLUMNS))
ROWS = RNG.integers(-128, 128, (4, 3)).astype(np.int8)
BIAS = RNG.integers(-(2**12), 2**12, COLUMNS).astype(np.int32)
BIAS[::7] = RNG.integers(-(2**31), 2**31, BIAS[::7].size)  # sums that wrap
SCALES = (2.0 ** RNG.uniform(-9, 1, COLUMNS)).astype(np.float32)
SCALES[::3] = 2.0 ** RNG.integers(-8, 2, SCALES[::3].size)  # ties
TIES = np.s_[4::7]  # small sums, with ties within a byte
COEFFICIENTS[:, TIES] = RNG.integers(-1, 2, COEFFICIENTS[:, TIES].shape)
BIAS[TIES] = RNG.integers(-90, 90, BIAS[TIES].size)
SCALES[TIES] = 2.0 ** RNG.integers(-4, 0, SCALES[TIES].size)
SCALES[::41], SCALES[1::41], SCALES[2::41] = 1 - 2.0**-24, -0.4, 2.0**-120
SINGLE = {"a_scale": np.float32(1.5), "output_scale": np.float32(1.5)}


def wanted(mode, a_scale=SINGLE["a_scale"], output_scale=SINGLE["output_scale"]):
    """The outputs (4, COLUMNS)."""
    sums = ROWS.astype(np.int64) @ COEFFICIENTS.astype(np.int64) + BIAS
    rows = np.broadcast_to(np.asarray(a_scale, np.float64), (4, 1))
    real = rows * SCALES.astype(np.float64) / np.float64(output_scale)
    pairs = zip(sums.ravel().tolist(), real.ravel().tolist(), strict=True)
    scaled = [requantize(wrap(x), factor, mode) + 3 for x, factor in pairs]
    return np.clip(scaled, -128, 127).astype(np.int8).reshape(sums.shape)


def multiply(mode, implementation, **scales):
    return functools.partial(
        dmlax.quantized_linear_matrix_multiply,
        requantization=mode,
        implementation=implementation,
        **{**SINGLE, "output_zero_point": np.int8(3), **scales},
    )


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", REQUANTIZATIONS)
def test_products_of_known_and_of_traced_scales(mode, implementation):
    call = multiply(mode, implementation)
    known = jax.jit(lambda a: call(a, COEFFICIENTS, BIAS, b_scale=SCALES))
    assert_same(known(ROWS), wanted(mode))
    traced = jax.jit(lambda a, b, bias, scale: call(a, b, bias, b_scale=scale))
    assert_same(traced(ROWS, COEFFICIENTS, BIAS, SCALES), wanted(mode))
    rows = np.array([[0.5], [0.7], [1.9], [2.0**-20]], np.float32)
    by_rows = multiply(mode, implementation, a_scale=rows)
    known = jax.jit(lambda a: by_rows(a, COEFFICIENTS, BIAS, b_scale=SCALES))
    assert_same(known(ROWS), wanted(mode, rows))
    assert_same(by_rows(ROWS, COEFFICIENTS, BIAS, b_scale=jnp.asarray(SCALES)), wanted(mode, rows))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("mode", REQUANTIZATIONS)
def test_convolutions_of_any_layout(mode, implementation):
    images = ROWS.reshape(2, 1, 2, 3)
    call = functools.partial(
        dmlax.quantized_linear_convolution,
        input_scale=SINGLE["a_scale"],
        output_scale=SINGLE["output_scale"],
        output_zero_point=np.int8(3),
        requantization=mode,
        implementation=implementation,
    )
    last = functools.partial(call, dimension_numbers=("NHWC", "OHWI", "NHWC"))
    filter = COEFFICIENTS.T.reshape(COLUMNS, 1, 1, 3)
    rows = wanted(mode)
    known = jax.jit(lambda x: last(x, filter, BIAS, filter_scale=SCALES))
    assert_same(known(images), rows.reshape(2, 1, 2, COLUMNS))
    first = jax.jit(lambda x, w, bias, scale: call(x, w, bias, filter_scale=scale))
    y = first(images.transpose(0, 3, 1, 2), filter.transpose(0, 3, 1, 2), BIAS, SCALES)
    assert_same(y, rows.reshape(2, 1, 2, COLUMNS).transpose(0, 3, 1, 2))
    prepared = dmlax.prepare_filter(filter, dimension_numbers=("NHWC", "OHWI", "NHWC"))
    mapped = jax.vmap(lambda x: call(x[None], prepared, BIAS, filter_scale=SCALES)[0])
    assert_same(mapped(images), rows.reshape(2, 1, 2, COLUMNS))


PAIRS = RNG.integers(-128, 128, (2, 400)).astype(np.int8)
TRIPLES = [(0.02, 0.03, 0.04), (0.5, 0.25, 1.0), (1.0, 0.0051, 0.37), (0.007, 0.9, 0.013)]


@pytest.mark.parametrize("implementation", ["xla", "reference", "auto"])
@pytest.mark.parametrize("scales", TRIPLES, ids=str)
@pytest.mark.parametrize("kind", ["add single", "add double", "multiply double"])
def test_sums_and_products_of_two_tensors(kind, scales, implementation):
    name, _, last = kind.partition(" ")
    mode, function = f"fixed_point_{last}", getattr(dmlax, f"element_wise_quantized_linear_{name}")
    zeros = {
        "a_zero_point": np.int8(-7),
        "b_zero_point": np.int8(3),
        "output_zero_point": np.int8(5),
    }
    a, b, output = np.float32(scales)
    x, y = PAIRS.astype(np.int64) - [[-7], [3]]
    if name == "add":
        rounded = [
            requantize_sum(*pair, (a, b, output), mode)
            for pair in zip(x.tolist(), y.tolist(), strict=True)
        ]
    else:
        rounded = [requantize(p, float(a * b / output), mode) for p in (x * y).tolist()]
    expected = np.clip(np.array(rounded) + 5, -128, 127).astype(np.int8)

    def call(first, second, a, b, output):
        options = {"requantization": mode, "implementation": implementation, **zeros}
        return function(first, second, a_scale=a, b_scale=b, output_scale=output, **options)

    assert_same(jax.jit(call)(*PAIRS, a, b, output), expected)
    assert_same(jax.jit(lambda x, y: call(x, y, a, b, output))(*PAIRS), expected)
    mapped = jax.vmap(lambda x, y: call(x, y, a, b, output))(*PAIRS.reshape(2, 4, 100))
    assert_same(mapped, expected.reshape(4, 100))


def test_a_product_of_two_tensors_has_one_mode():
    scales = {"a_scale": 1.0, "b_scale": 1.0, "output_scale": 1.0}
    multiply = functools.partial(dmlax.element_wise_quantized_linear_multiply, *PAIRS, **scales)
    with pytest.raises(SpecError, match="expected one of fixed_point_double"):
        multiply(requantization="fixed_point_single")
    explained = dmlax.explain(functools.partial(multiply, requantization="fixed_point_double"))
    assert "not native_cpu: its kernel lacks requantization fixed_point_double" in str(explained)


@pytest.mark.parametrize("implementation", ["xla", "reference", "auto"])
@pytest.mark.parametrize("pixels", [1, 7, 49, 64, 300])
def test_means_of_images(pixels, implementation):
    x = RNG.integers(-128, 128, (2, 60, pixels)).astype(np.int8)
    x[0, ::4] = RNG.integers(-128, 128, (15, 1))  # ties
    scales = (2.0 ** RNG.uniform(-7, 2, 60)).astype(np.float32), np.float32(0.25)
    scales[0][::4], scales[0][1] = 0.125, 2.0**-34
    sums = (x.astype(np.int64) + 2).sum(-1).tolist()
    pairs = [(scale, 0.25) for scale in scales[0]]
    rounded = [
        [requantize_mean(x, pixels, pair) for x, pair in zip(row, pairs, strict=True)]
        for row in sums
    ]
    expected = np.clip(np.array(rounded) - 9, -128, 127).astype(np.int8)[..., None]
    function = functools.partial(
        dmlax.quantized_linear_global_average_pooling,
        input_zero_point=np.int8(-2),
        output_zero_point=np.int8(-9),
        requantization="fixed_point_double",
        implementation=implementation,
    )
    call = jax.jit(lambda x, a, b: function(x, input_scale=a, output_scale=b))
    assert_same(call(x, *scales), expected)


IMAGES = RNG.integers(-128, 128, (4, 8, 5, 5)).astype(np.int8)
KERNEL = RNG.integers(-128, 128, (16, 8, 3, 3)).astype(np.int8)
IN = {"input_scale": np.float32(0.03), "output_scale": np.float32(0.02)}
PAIR = {"a_scale": np.float32(0.03), "b_scale": np.float32(0.07), "output_scale": np.float32(0.05)}
SPLIT = {
    "convolution": (
        dmlax.quantized_linear_convolution,
        (IMAGES, KERNEL),
        IN | {"filter_scale": 0.01},
    ),
    "product": (
        *(dmlax.quantized_linear_matrix_multiply, (IMAGES[..., 0], IMAGES[0, 0])),
        {"a_scale": 0.03, "b_scale": SCALES[:5], "output_scale": 0.02},
    ),
    "sum": (dmlax.element_wise_quantized_linear_add, (IMAGES, IMAGES[::-1]), PAIR),
    "mean": (dmlax.quantized_linear_global_average_pooling, (IMAGES,), IN),
}


@pytest.mark.parametrize("axes", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", SPLIT)
def test_devices_share_a_batch(name, axes):
    function, operands, scales = SPLIT[name]
    mode = {"requantization": "fixed_point_double"}
    call = jax.jit(lambda x: function(x, *operands[1:], **scales, **mode))
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType[axes],))
    split = NamedSharding(mesh, PartitionSpec("d"))
    y = call(jax.device_put(operands[0], split))
    assert y.sharding.spec[0] == "d"
    assert_same(y, np.asarray(call(operands[0])))


def test_the_modes_differ_in_the_drawn_numbers():
    found = [wanted(mode) for mode in REQUANTIZATIONS]
    assert all((x != y).any() for i, x in enumerate(found) for y in found[:i])


def test_a_mode_replaces_the_arithmetic_and_is_explained():
    call = {"b_scale": SCALES, "a_scale": 1.0, "output_scale": 1.0}
    explained = dmlax.explain(multiply("float64", "auto"), ROWS, COEFFICIENTS, **call)
    assert "requantization float64: of int32 sums, by xla" in str(explained)
    with pytest.raises(SpecError, match="arithmetic 'float32': leave that out") as info:
        dmlax.quantized_linear_matrix_multiply(
            *(ROWS, COEFFICIENTS), **call, arithmetic="float32", requantization="float64"
        )
    assert (info.value.code, info.value.field) == ("option", "requantization")
    with pytest.raises(SpecError, match="is 'double', expected one of fixed_point_single"):
        dmlax.quantized_linear_matrix_multiply(
            *(ROWS, COEFFICIENTS), **call, requantization="double"
        )
