"""The one rounding: the requantizer, quantize and dequantize against rational arithmetic."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from grading import near_ties
from onnx import TensorProto, helper

from dmlax._core import requantize
from dmlax_conformance.oracle import exact as floats
from dmlax_conformance.oracle.exact import quantize
from support import assert_same, draw, oracle, requantized, wild_floats
from support.cases.requantize import (
    FAMILIES,
    INT_MIN,
    exact_ties,
    extremes,
    float32_product,
    in_range,
    near,
    nearest,
    quotients,
    tiny,
)

DTYPES = [np.int8, np.uint8]


def run(accumulator, scales, zero_point, dtype, arithmetic="exact"):
    zero = None if zero_point is None else jnp.asarray(zero_point, dtype)
    scales = [jnp.asarray(scale, jnp.float32) for scale in scales]
    return requantize.requantizer(*scales, zero, dtype, arithmetic)(jnp.asarray(accumulator))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_is_the_rounded_rational_number(family, dtype):
    accumulator, scales = FAMILIES[family](7)
    expected = requantized(accumulator, scales, 0, dtype)
    assert_same(jax.jit(lambda a, *s: run(a, s, None, dtype))(accumulator, *scales), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_adds_any_zero_point_after_rounding(dtype):
    accumulator, scales = exact_ties(8, 128)
    zero_points = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)[:, None]
    expected = requantized(accumulator, scales, zero_points, dtype)
    assert_same(
        jax.jit(lambda a, z, *s: run(a, s, z, dtype))(accumulator, zero_points, *scales), expected
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_requantizing_near_ties_is_exact(dtype):
    accumulator, scales = near(64)
    expected = requantized(accumulator, scales, 0, dtype)
    assert_same(jax.jit(lambda a, *s: run(a, s, None, dtype))(accumulator, *scales), expected)


def every_family():
    """All families, the sums next to a tie, and near ties: accumulators and scales."""
    ties = np.array(near_ties.family("exact", 64, 9), np.int64).T
    cases = [family(7) for family in FAMILIES.values()] + [nearest(), tiny()]
    cases.append((ties[0], [words.astype(np.uint32).view(np.float32) for words in ties[1:]]))
    accumulators, scales = zip(*cases, strict=True)
    scales = [np.concatenate(parts) for parts in zip(*scales, strict=True)]
    return np.concatenate(accumulators).astype(np.int32), scales


@pytest.mark.parametrize("has_bias", [False, True])
def test_scales_that_a_program_holds_round_alike(has_bias):
    totals, scales = every_family()
    bias = draw(3, np.int32, totals.size) if has_bias else np.zeros_like(totals)
    accumulator = totals.astype(np.int64) - bias
    bias = np.where(accumulator == accumulator.astype(np.int32), bias, 0)

    @jax.jit
    def call(accumulator):
        threshold = requantize.factors_of_constants(scales, accumulator, "exact", has_bias)
        assert threshold is not None
        return requantize.requantizer(
            *map(jnp.asarray, scales),
            None,
            "int8",
            "exact",
            jnp.asarray(bias) if has_bias else None,
            threshold,
        )(accumulator)

    assert_same(call(totals - bias), requantized(totals, scales, 0, "int8"))


def test_a_threshold_is_that_of_finite_scales_which_a_program_holds():
    rows, columns, one = np.float32([[1], [2]]), np.float32([3, 4]), np.ones((), np.float32)

    def shape(input, *scales, arithmetic="exact"):
        found = requantize.factors_of_constants(scales, input, arithmetic)
        return None if found is None else found.integer.shape

    @jax.jit
    def call(x):
        assert shape(x, one, columns, one) == (2,)
        assert shape(x, rows, one, one) == (2, 1)
        assert shape(x, rows, columns, one) is None
        assert shape(x, one, x, one) is None
        assert shape(x, one, columns, one, arithmetic="float32") is None
        assert shape(x, one, np.float32([1, np.nan]), one) is None
        assert shape(x, one, one, 0 * one[None]) is None
        return x

    call(columns)
    assert shape(columns, one, columns, one) is None


def test_the_most_negative_accumulator_has_the_magnitude_that_int32_cannot_hold():
    scale = np.float32(2.0**-31)
    rounded = jax.jit(lambda scale: run(np.int32(INT_MIN), (scale, 1, 1), None, np.int8))
    assert rounded(scale * 100).tolist() == -100
    assert rounded(-scale * 100).tolist() == 100


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_float32_arithmetic_is_numpys_float32(family, dtype):
    accumulator, scales = FAMILIES[family](17)
    with np.errstate(all="ignore"):
        multiplier = scales[0] * scales[1] / scales[2]
        product = accumulator.astype(np.float32) * multiplier
    finite = np.isfinite(product)
    limits = np.iinfo(dtype)
    zero = np.asarray(limits.max - 3, dtype)
    rounded = np.rint(np.clip(product[finite], -1000, 1000)).astype(np.int64) + int(zero)
    expected = np.clip(rounded, limits.min, limits.max).astype(dtype)
    got = jax.jit(lambda a, *s: run(a, s, zero, dtype, "float32"))(accumulator, *scales)
    assert finite.mean() > 0.2
    assert_same(np.asarray(got)[finite], expected)


def test_float32_arithmetic_saturates_infinities_and_sends_nan_to_the_lowest_value():
    accumulator, scales = extremes(0)
    words = [scale.view(np.uint32).tolist() for scale in scales]
    expected = [
        quantize(float32_product(a, s), Fraction(1), 5, "int8")
        for a, s in zip(accumulator.tolist(), zip(*words, strict=True), strict=True)
    ]
    got = jax.jit(lambda a, *s: run(a, s, np.int8(5), np.int8, "float32"))(accumulator, *scales)
    assert_same(got, np.array(expected, np.int8))


def onnx_session(node, inputs, output, constants):
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, t, list(s)) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info("y", output, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def test_float32_arithmetic_has_the_bits_of_onnx_runtimes_qlinearconv():
    """A bias reaches every accumulator, where the input is its zero point."""
    accumulator, (_, sw, _) = in_range(27, 512)
    sx, sy = np.float32(0.0123), np.float32(0.377)
    sw = (np.float32(200) / accumulator * sy / sx * np.abs(sw) / np.abs(sw).max()).astype(
        np.float32
    )
    ties, (tx, tw, ty) = exact_ties(28, 512)
    tw = (tw.astype(float) * tx / ty * sy / sx).astype(np.float32)
    accumulator, sw = np.concatenate([accumulator, ties]), np.abs(np.concatenate([sw, tw]))
    k = accumulator.size
    value = helper.make_tensor
    constants = [
        value("sx", TensorProto.FLOAT, (), [float(sx)]),
        value("zx", TensorProto.UINT8, (), [3]),
        value("w", TensorProto.INT8, (k, 1, 1, 1), [0] * k),
        value("sw", TensorProto.FLOAT, (k,), sw.tolist()),
        value("zw", TensorProto.INT8, (k,), [0] * k),
        value("sy", TensorProto.FLOAT, (), [float(sy)]),
        value("zy", TensorProto.UINT8, (), [131]),
        value("b", TensorProto.INT32, (k,), accumulator.tolist()),
    ]
    names = ["x", *(constant.name for constant in constants)]
    node = helper.make_node("QLinearConv", names, ["y"])
    session = onnx_session(
        node, {"x": (TensorProto.UINT8, (1, 1, 1, 1))}, TensorProto.UINT8, constants
    )
    (expected,) = session.run(None, {"x": np.full((1, 1, 1, 1), 3, np.uint8)})
    got = run(accumulator, (sx, sw, sy), np.uint8(131), np.uint8, "float32")
    assert len(np.unique(expected)) > 100
    assert_same(got, expected.reshape(-1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_float32_arithmetic_has_the_bits_of_onnx_runtimes_quantize_linear(dtype):
    x = np.random.default_rng(29).uniform(-300, 300, 100_000).astype(np.float32)
    x = np.concatenate([x, (np.arange(-600, 600) / 2).astype(np.float32), wild_floats(30, 1_000)])
    scale, zero = np.float32(0.7853982), np.asarray(np.iinfo(dtype).max - 100, dtype)
    onnx_type = TensorProto.INT8 if dtype is np.int8 else TensorProto.UINT8
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, (), [float(scale)]),
        helper.make_tensor("z", onnx_type, (), [int(zero)]),
    ]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    session = onnx_session(node, {"x": (TensorProto.FLOAT, x.shape)}, onnx_type, constants)
    (expected,) = session.run(None, {"x": x})
    quantize = jax.jit(lambda x, s, z: requantize.quantize(x, s, z, dtype, "float32"))
    assert_same(quantize(jnp.asarray(x), jnp.asarray(scale), jnp.asarray(zero)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
def test_quantizing_is_the_rounded_rational_quotient(kind, dtype):
    x, scale = quotients(kind)
    zero = draw(47, dtype, x.size)
    expected = oracle(
        "element_wise_quantize_linear",
        {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero},
        {"OutputTensor": (dtype, x.shape)},
    )
    quantize = jax.jit(lambda x, s, z: requantize.quantize(x, s, z, dtype, "exact"))
    got = quantize(*map(jnp.asarray, (x, scale, zero)))
    assert_same(got, expected["OutputTensor"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantizing_in_float32_rounds_ieee_quotients(dtype):
    x, scale = (a[:-5] for a in quotients(np.float32))
    with np.errstate(all="ignore"):
        quotient = np.clip(x / scale, -1000, 1000)
    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(quotient), limits.min, limits.max).astype(dtype)
    quantize = jax.jit(lambda x, s: requantize.quantize(x, s, None, dtype, "float32"))
    assert_same(quantize(*map(jnp.asarray, (x, scale))), expected)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_dequantizing_is_the_real_product_rounded_once(dtype, half):
    limits = np.iinfo(dtype)
    x, zero = draw(50, dtype, 1_500), draw(51, dtype, 1_500)
    x[:4], zero[:4] = (limits.min, limits.max, 0, 1), (limits.max, limits.min, 0, 1)
    scale = wild_floats(52, 1_500, np.float16 if half else np.float32)
    expected = [
        floats.encode(floats.exactly((a - z) * Fraction(s)), scale.dtype.name)
        for a, z, s in zip(x.tolist(), zero.tolist(), scale.tolist(), strict=True)
    ]
    expected = np.array(expected, f"uint{scale.itemsize * 8}").view(scale.dtype)
    got = jax.jit(requantize.dequantize)(*map(jnp.asarray, (x, scale, zero)))
    assert np.isinf(expected).any()
    assert (np.abs(expected) < np.finfo(scale.dtype).smallest_normal).any()
    assert_same(got, expected)


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        ((0.5, 0.25, 8.0), True),
        ((-0.5, [0.25, 1e-3], 8.0), True),
        ((0.5, [0.25, 1e-9], 8.0), False),
        ((1e-20, 1e-20, 1e-38), False),  # a float32 product underflows
        ((1e-20, 1e20, 1e-35), False),
        ((np.nan, 1.0, 1.0), False),
        ((0.0, 1.0, 1.0), False),
        (([[0.5], [0.25]], [0.5, 0.25], 1.0), False),  # one per row and one per column
        ((0.5, 0.25, None), False),  # traced
    ],
)
def test_steep_scales_are_known_and_saturate_beyond_int32(scales, expected):
    found = []

    def trace(x):
        given = [x if scale is None else np.asarray(scale, np.float32) for scale in scales]
        found.append(requantize.saturates_beyond_int32(given, x))
        return x

    jax.make_jaxpr(trace)(np.float32(1))
    assert found == [expected]
