"""The convolution with an addend: its order and roundings, memory, symbolic sizes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw

IMPLEMENTATIONS = [*NATIVE, "xla", "reference"]
X, W = draw(1, np.uint8, (2, 3, 7, 6)), draw(2, np.int8, (4, 3, 2, 3))
BIAS = draw(3, np.int32, 4) >> 20
SHAPE = (2, 4, 3, 5)
SCALES = {
    "input_scale": np.float32(0.02),
    "filter_scale": np.float32([0.01, 0.02, -0.03, 0.04]),
    "output_scale": np.float32(0.05),
    "input_zero_point": np.uint8(100),
}
WINDOWS = {"strides": (2, 1), "start_padding": (0, 1)}
SUM_SCALES = {"addend_scale": np.float32(0.35), "sum_scale": np.float32(0.1)}


def fused(addend, x=X, **options):
    return dmlax.quantized_linear_convolution_add(
        *(x, W, BIAS, addend),
        output_zero_point=np.int8(3),
        addend_zero_point=np.int8(-5),
        sum_zero_point=np.int8(7),
        **(SCALES | SUM_SCALES | WINDOWS | options),
    )


def add_to(x, addend, **options):
    """The sum after a convolution that gives its input, if its scales are equal."""
    scales = dict.fromkeys(("input_scale", "filter_scale", "output_scale"), 1.0) | SUM_SCALES
    one = np.ones((1, 1, 1, 1), np.int8)
    return dmlax.quantized_linear_convolution_add(x, one, None, addend, **(scales | options))


def test_the_order_matters_to_float32_alone():
    every = np.arange(256, dtype=np.uint8)
    x, addend = np.repeat(every, 256).reshape(1, 1, 256, 256), np.resize(every, (1, 1, 256, 256))
    scales = dict.fromkeys(("input_scale", "output_scale"), 0.15)
    call = functools.partial(add_to, x, addend, addend_scale=0.45, sum_scale=0.3, **scales)
    assert_same(call(), call(addend_first=True))
    call = functools.partial(call, arithmetic="float32")
    assert np.count_nonzero(np.asarray(call()) != np.asarray(call(addend_first=True)))


def test_it_rounds_twice():
    """0.5 becomes 0 before the sum, in which it would be 1."""
    x = np.ones((1, 1, 1, 1), np.uint8)
    call = functools.partial(add_to, x, 5 * x, addend_scale=1.0, sum_scale=0.5)
    assert call(input_scale=0.5).item() == 10
    assert call(input_scale=0.75).item() == 12


def test_more_elements_than_a_table_of_pairs_is_worth():
    x, addend = draw(5, np.uint8, (1, 1, 512, 600)), draw(6, np.int8, (1, 1, 512, 600))
    wanted, *found = (add_to(x, addend, implementation=each) for each in IMPLEMENTATIONS[::-1])
    for each in found:
        assert_same(each, wanted)


@pytest.mark.skipif(not NATIVE, reason="of a kernel, which tests/cpu says when it must be there")
@pytest.mark.parametrize("addend_first", [False, True])
def test_the_sum_takes_the_memory_of_the_convolutions_result(addend_first):
    x, w = draw(5, np.uint8, (1, 1, 64, 64)), draw(6, np.int8, (64, 1, 1, 1))
    call = functools.partial(
        dmlax.quantized_linear_convolution_add,
        input_scale=1.0,
        filter_scale=1.0,
        output_scale=1.0,
        addend_first=addend_first,
        arithmetic="float32",
        implementation="native_cpu",
        **SUM_SCALES,
    )
    bias, addend = jnp.zeros(64, jnp.int32), draw(7, np.uint8, (1, 64, 64, 64))
    memory = jax.jit(call).lower(x, w, bias, addend).compile().memory_analysis()
    assert memory.temp_size_in_bytes < addend.size


def test_an_image_of_symbolic_sizes():
    """The addend has the sizes that the convolution's result has."""
    batch, height = jax.export.symbolic_shape("b, h")
    x = jax.ShapeDtypeStruct((batch, 3, height, 6), np.uint8)
    addend = jax.ShapeDtypeStruct((batch, 4, height, 5), np.int8)
    padded = {"strides": (1, 1), "start_padding": (1, 1)}
    call = lambda x, addend: fused(addend, x, **padded)  # noqa: E731
    exported = jax.export.export(jax.jit(call))(x, addend)
    addend = draw(8, np.int8, (2, 4, 7, 5))
    assert_same(exported.call(X, addend), call(X, addend))
    with pytest.raises(dmlax.SpecError, match="expected the sizes of the convolution's result"):
        jax.export.export(jax.jit(call))(x, jax.ShapeDtypeStruct((batch, 4, 7, 5), np.int8))


def test_no_images():
    for implementation in IMPLEMENTATIONS:
        found = fused(draw(1, np.int8, (0, *SHAPE[1:])), X[:0], implementation=implementation)
        assert (found.shape, found.dtype) == ((0, *SHAPE[1:]), np.int8)
