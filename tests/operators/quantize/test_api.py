"""element_wise_quantize_linear and element_wise_dequantize_linear, against the oracle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import assert_same, oracle

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
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": None}
    asked = {"OutputTensor": (np.uint8, x.shape)}
    wanted = oracle("element_wise_quantize_linear", inputs, asked)["OutputTensor"]
    assert_same(exact, wanted)
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
