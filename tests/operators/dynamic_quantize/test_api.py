"""Dynamic quantization: random calls, chosen ranges, mapped and split inputs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, by_implementations
from support.calls import dynamic_quantize as dynamic_quantize_calls

quantize = dmlax.dynamic_quantize_linear
EVERY = ["xla", "reference", *NATIVE]
every_implementation = pytest.mark.parametrize("implementation", EVERY)


SMALLEST = 2.0**-149
LARGEST = float(np.finfo(np.float32).max)
RANGES = {  # values, dtype, scale, zero point
    "none": ([], "uint8", 1.0, 0),
    "none, int8": ([], "int8", 1.0, -128),
    "zeros": ([0.0, -0.0], "int8", 1.0, -128),
    "positive": ([51.0], "uint8", 0.2, 0),
    "negative": ([-51.0, -1.0], "uint8", 0.2, 255),
    "a scale that is 0": ([127 * SMALLEST], "uint8", 1.0, 0),
    "a subnormal scale": ([-128 * SMALLEST], "uint8", SMALLEST, 128),
    "a zero point that is clamped": ([-382 * SMALLEST], "int8", SMALLEST, 127),
    "twice the largest": ([-LARGEST, LARGEST], "uint8", LARGEST / 127.5, 128),
    "a tie of the zero point": ([-0.5, 254.5], "uint8", 1.0, 0),
    "a tie to an even zero point": ([-1.5, 253.5], "uint8", 1.0, 2),
}


@pytest.mark.parametrize(
    ("name", "implementation"), by_implementations(((name,) for name in RANGES), EVERY)
)
def test_a_range_gives_its_parameters(name, implementation):
    values, dtype, scale, zero_point = RANGES[name]
    found = quantize(np.float32(values), output_dtype=dtype, implementation=implementation)
    assert_same(found.scale, np.float32(scale))
    assert_same(found.zero_point, np.asarray(zero_point, dtype))
    wanted = dynamic_quantize_calls.dynamic_quantize(np.float32(values), np.dtype(dtype))
    assert_same(found.output, wanted[0])


def test_the_scale_has_a_derivative():
    x = jnp.float32([-3.0, 0.5, 2.0])
    slope = jax.grad(lambda x: quantize(x).scale)(x)
    np.testing.assert_allclose(slope, np.float32([-1, 0, 1]) / 255, rtol=1e-6)


def test_numpys_float64_is_rounded_to_float32():
    x = np.random.default_rng(1).standard_normal(100)
    jax.tree.map(assert_same, quantize(x), quantize(x.astype(np.float32)))


@every_implementation
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_no_crash(bad, implementation):
    found = quantize(np.float32([1, bad, -1]), implementation=implementation)
    assert found.output.shape == (3,)
