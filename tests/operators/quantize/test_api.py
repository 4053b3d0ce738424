"""element_wise_quantize_linear and element_wise_dequantize_linear, against the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
import support
from support import NATIVE, assert_same, draw, oracle, wild_floats

IMPLEMENTATIONS = [*NATIVE, "xla", "reference"]
BROADCASTS = [  # beside those of `support/calls/elementwise.py`
    ((2, 3, 4), (3,), -2),
    ((2, 3, 4), (4,), -1),
    ((0, 3), (3,), 1),
    ((1, 2, 1, 2, 1, 2, 1, 2), (2, 1, 1), None),
]
by_implementations = pytest.mark.parametrize(
    ("shape", "parameter", "axis", "implementation"),
    support.by_implementations(BROADCASTS, IMPLEMENTATIONS),
    ids=str,
)


def along(parameter, shape, axis):
    """The parameter in the shape that the oracle broadcasts."""
    if axis is None or parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape((1,) * len(shape)) if parameter.size == 1 else parameter
    return parameter.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def expected(name, x, scale, zero, axis, dtype):
    inputs = {
        "InputTensor": x,
        "ScaleTensor": along(scale, x.shape, axis),
        "ZeroPointTensor": None if zero is None else along(zero, x.shape, axis),
    }
    return oracle(name, inputs, {"OutputTensor": (dtype, x.shape)})["OutputTensor"]


def spread(seed, shape, dtype):
    """Values whose quotients by scales near 1 cover the output's range, halves among them."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-400, 400, shape).astype(dtype)
    return (rng.integers(-800, 800, shape) / 2).astype(dtype)


def near_one(seed, shape, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return np.asarray(rng.choice([0.5, 1, -2, 1.7, 0.3], shape), dtype)


@by_implementations
def test_quantize_broadcasts_its_parameters(shape, parameter, axis, implementation):
    x, scale = spread(1, shape, np.float32), near_one(2, parameter)
    zero = draw(3, np.uint8, parameter)
    got = dmlax.element_wise_quantize_linear(
        x, scale, zero, axis=axis, implementation=implementation
    )
    assert_same(got, expected("element_wise_quantize_linear", x, scale, zero, axis, np.uint8))


@by_implementations
def test_dequantize_broadcasts_its_parameters(shape, parameter, axis, implementation):
    x, scale, zero = draw(4, np.int8, shape), wild_floats(5, parameter), draw(6, np.int8, parameter)
    got = dmlax.element_wise_dequantize_linear(
        x, scale, zero, axis=axis, implementation=implementation
    )
    assert_same(got, expected("element_wise_dequantize_linear", x, scale, zero, axis, np.float32))


SPECIAL = [
    (np.inf, 1.0, 255),
    (-np.inf, 1.0, 0),
    (np.inf, -1.0, 0),
    (-np.inf, -1.0, 255),
    (np.nan, 1.0, 0),
    (np.nan, -1.0, 0),
    (-0.0, 1.0, 10),
    (3.4028235e38, 1e-45, 255),
    (1e-45, 3.4028235e38, 10),
    (1e-45, 1e-45, 11),
    (2.5, 1.0, 12),
    (3.5, 1.0, 14),
    (-2.5, 1.0, 8),
]


@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize(("x", "scale", "result"), SPECIAL, ids=str)
def test_special_values_saturate_and_nan_gives_the_lowest(x, scale, result, arithmetic):
    x = np.array([x], np.float32)
    got = dmlax.element_wise_quantize_linear(x, scale, 10, arithmetic=arithmetic)
    assert_same(got, np.array([result], np.uint8))


def test_the_two_arithmetics_differ_beside_a_tie():
    """0.5 + 2**-25 quotients round to 0.5 in float32, and then to 0."""
    scale = np.float32(1 + 2**-23)
    x = np.arange(1, 512, dtype=np.float32) / 2 * scale
    x = np.concatenate([x, np.nextafter(x, np.float32(1e9))]).astype(np.float32)
    exact = np.asarray(dmlax.element_wise_quantize_linear(x, scale))
    float32 = np.asarray(dmlax.element_wise_quantize_linear(x, scale, arithmetic="float32"))
    assert_same(exact, expected("element_wise_quantize_linear", x, scale, None, None, np.uint8))
    assert_same(float32, np.clip(np.rint(x / scale), 0, 255).astype(np.uint8))
    assert (exact != float32).any()


OUTPUT_DTYPES = [
    (None, None, np.uint8),
    (None, np.int8, np.int8),
    (3, None, np.uint8),
    (3, np.int8, np.int8),
    (np.int8(3), None, np.int8),
    (np.uint8(3), None, np.uint8),
    (np.int8(3), "int8", np.int8),
    (jnp.int8(3), None, np.int8),
]


@pytest.mark.parametrize(("zero_point", "asked", "dtype"), OUTPUT_DTYPES, ids=repr)
def test_the_output_dtype_is_as_asked_or_the_zero_points_or_uint8(zero_point, asked, dtype, how):
    x = np.ones(2, np.float32)
    call = how(lambda x: dmlax.element_wise_quantize_linear(x, 1, zero_point, output_dtype=asked))
    assert call(x).dtype == dtype


def test_a_weak_tracer_takes_its_tensors_dtype_as_a_python_number_does():
    x, q = np.ones(2, np.float32), np.ones(2, np.int8)
    quantize, dequantize = dmlax.element_wise_quantize_linear, dmlax.element_wise_dequantize_linear
    assert jax.jit(quantize)(x, 2, 3).dtype == quantize(x, 2, 3).dtype == np.uint8
    assert jax.jit(dequantize)(q, 2.0, 3).dtype == dequantize(q, 2.0, 3).dtype == np.float32


def test_numpy_float64_scales_are_rounded_to_float32():
    x = np.ones(2, np.float32)
    narrow = dmlax.element_wise_quantize_linear(x, np.float32(0.1))
    assert_same(dmlax.element_wise_quantize_linear(x, np.float64(0.1)), narrow)
    assert_same(dmlax.element_wise_quantize_linear(x, np.full(2, 0.1)), narrow)


def test_a_python_scale_of_float16_input_is_rounded_to_float16():
    x = np.array([1.0, 7.3], np.float16)
    got = dmlax.element_wise_quantize_linear(x, 0.1)
    assert_same(got, dmlax.element_wise_quantize_linear(x, np.float16(0.1)))


def test_dequantize_keeps_subnormals_and_positive_zero():
    got = dmlax.element_wise_dequantize_linear(np.array([1, 0, -3], np.int8), -1e-45)
    assert_same(got, np.array([-1e-45, 0.0, 4e-45], np.float32))


def test_dequantizing_32_bit_integers_does_not_wrap():
    x, zero = np.array([2**31 - 1], np.int32), np.int32(-(2**31))
    got = dmlax.element_wise_dequantize_linear(x, 1.0, zero)
    assert_same(got, np.array([2.0**32 - 1], np.float32))
