"""The convolution with an addend is the convolution, and then the addition."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw

IMPLEMENTATIONS = [*NATIVE, "xla", "reference"]
MIXES = list(itertools.product(("int8", "uint8"), repeat=3))  # convolution, addend, sum
ORDERS = list(itertools.product(("exact", "float32"), (False, True)))  # arithmetic, addend first
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


def zero_point(seed, dtype):
    """A value of a dtype."""
    return draw(seed, dtype)


def in_two(mix, arithmetic, addend_first, convolved, addend):
    """The addition alone."""
    terms = [
        (convolved, SCALES["output_scale"], zero_point(10, mix[0])),
        (addend, SUM_SCALES["addend_scale"], zero_point(11, mix[1])),
    ]
    (a, a_scale, a_zero), (b, b_scale, b_zero) = terms[::-1] if addend_first else terms
    return dmlax.element_wise_quantized_linear_add(
        *(a, b),
        a_scale=a_scale,
        b_scale=b_scale,
        output_scale=SUM_SCALES["sum_scale"],
        a_zero_point=a_zero,
        b_zero_point=b_zero,
        output_zero_point=zero_point(12, mix[2]),
        arithmetic=arithmetic,
    )


def convolve(mix, arithmetic, **options):
    return dmlax.quantized_linear_convolution(
        *(X, W, BIAS),
        output_zero_point=zero_point(10, mix[0]),
        arithmetic=arithmetic,
        **SCALES,
        **WINDOWS,
        **options,
    )


def fused(mix, arithmetic, addend_first, addend, x=X, w=W, **options):
    return dmlax.quantized_linear_convolution_add(
        *(x, w, BIAS, addend),
        output_zero_point=zero_point(10, mix[0]),
        addend_zero_point=zero_point(11, mix[1]),
        sum_zero_point=zero_point(12, mix[2]),
        arithmetic=arithmetic,
        addend_first=addend_first,
        **(SCALES | SUM_SCALES | WINDOWS | options),
    )


def check(mix, order, implementation):
    addend = draw(4, mix[1], SHAPE)
    expected = in_two(mix, *order, convolve(mix, order[0]), addend)
    assert_same(fused(mix, *order, addend, implementation=implementation), expected)
    assert expected.dtype == mix[2]


@pytest.mark.parametrize("index", range(len(MIXES)))
def test_it_is_the_two_operators_one_after_the_other(index):
    """Each lowering has every order, with both dtypes of each tensor."""
    order = ORDERS[(index ^ index >> 1) % 4]
    for implementation in (*NATIVE, IMPLEMENTATIONS[-1 - index.bit_count() % 2]):
        check(MIXES[index], order, implementation)


@pytest.mark.slow
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_it_is_so_for_every_mix_and_order(mix, order, implementation):
    check(mix, order, implementation)


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


def test_a_prepared_filter_and_channels_last():
    mix, order = MIXES[1], ORDERS[0]
    addend = draw(4, mix[1], SHAPE)
    expected = fused(mix, *order, addend)
    last = ("NHWC", "OIHW", "NHWC")
    found = fused(
        *(mix, *order, np.moveaxis(addend, 1, -1), np.moveaxis(X, 1, -1)),
        w=dmlax.prepare_filter(W, dimension_numbers=last),
    )
    assert_same(np.moveaxis(np.asarray(found), -1, 1), expected)


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
    call = lambda x, addend: fused(MIXES[1], "exact", False, addend, x, **padded)  # noqa: E731
    exported = jax.export.export(jax.jit(call))(x, addend)
    addend = draw(8, np.int8, (2, 4, 7, 5))
    assert_same(exported.call(X, addend), call(X, addend))
    with pytest.raises(dmlax.SpecError, match="expected the sizes of the convolution's result"):
        jax.export.export(jax.jit(call))(x, jax.ShapeDtypeStruct((batch, 4, 7, 5), np.int8))


def test_no_images():
    call = functools.partial(fused, MIXES[0], "exact", False)
    for implementation in IMPLEMENTATIONS:
        found = call(draw(1, np.int8, (0, *SHAPE[1:])), X[:0], implementation=implementation)
        assert (found.shape, found.dtype) == ((0, *SHAPE[1:]), np.int8)
