"""The convolutions that a TPU and a GPU run by XLA, as a CPU computes them."""

import jax
import numpy as np
import pytest

import dmlax
from dmlax._operators.convolution import xla
from support import assert_same, draw, sums_of_products
from support.calls import convolution as random_calls

BOUNDS = {"uint8": (0, 255), "int8": (-128, 127)}
BRANCHES = ("_direct", "_by_words")


@pytest.fixture(autouse=True, params=BRANCHES)
def taken(take, request):
    """Every plan but the depthwise takes the branch."""
    plans = take(request.param)
    yield plans
    assert plans


def test_random_calls_are_numpys():
    assert list(random_calls.mismatches("xla", 1, 30, eager=True)) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("x_dtype", BOUNDS)
@pytest.mark.parametrize("w_dtype", BOUNDS)
def test_accumulators_above_2_to_the_24_are_exact(x_dtype, w_dtype):
    x = np.full((1, 1024, 3, 3), BOUNDS[x_dtype][1], x_dtype)
    w = np.full((2, 1024, 3, 3), BOUNDS[w_dtype][1], w_dtype)
    w[1], x[0, 0, 0, 0] = BOUNDS[w_dtype][0], 1
    zero = BOUNDS[x_dtype][0], np.array(BOUNDS[w_dtype], w_dtype)
    got = integer(x, w, input_zero_point=zero[0], filter_zero_point=zero[1])
    wanted = sums_of_products(x, w, *zero)
    assert np.abs(wanted).min() > 2**24
    assert_same(got, wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_map_is_a_loop(axes, groups):
    rng = np.random.default_rng(7)
    x = rng.integers(0, 256, (3, 2, 4, 5, 5), np.uint8)
    w = rng.integers(0, 256, (3, 4, 4 // groups, 2, 2), np.uint8)
    x, w = (each if axis == 0 else each[0] for each, axis in zip((x, w), axes, strict=True))
    call = jax.tree_util.Partial(integer, group_count=groups, filter_zero_point=np.uint8(9))
    got = jax.vmap(call, in_axes=axes)(x, w)
    for i in range(3):
        one = (each[i] if axis == 0 else each for each, axis in zip((x, w), axes, strict=True))
        assert_same(got[i], sums_of_products(*one, 0, 9, groups))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("channels", "dtype"), [(3, "uint8"), (4, "int8"), (40, "uint8")])
def test_groups_of_few_channels_are_merged(channels, dtype):
    rng = np.random.default_rng(10)
    x = rng.integers(0, 256, (2, 24 * channels, 5, 6), np.uint8)
    w = draw(11, dtype, (48, channels, 3, 2))
    zero_point = draw(12, dtype, (48,))
    got = integer(x, w, input_zero_point=7, filter_zero_point=zero_point, group_count=24)
    assert_same(got, sums_of_products(x, w, 7, zero_point, 24))


def test_steps_that_are_never_taken_may_be_of_any_length():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 256, (2, 4, 3, 5), np.uint8)
    w = rng.integers(-128, 128, (3, 4, 1, 5), np.int8)
    far = {"strides": (2**31 - 1, 2**31 - 1), "dilations": (2**31 - 1, 1)}
    assert_same(integer(x, w, **far), sums_of_products(x, w)[:, :, :1])


def test_windows_too_far_apart_to_address_are_joined(monkeypatch):
    monkeypatch.setattr(xla, "_MOST_WORDS", 9 * 9)
    monkeypatch.setattr(xla, "_gather_taps", None)
    rng = np.random.default_rng(8)
    x = rng.integers(0, 256, (2, 4, 9, 9), np.uint8)
    w = rng.integers(-128, 128, (3, 4, 2, 3), np.int8)
    assert_same(integer(x, w, input_zero_point=7), sums_of_products(x, w, 7, 0))


def integer(x, w, **rest):
    return dmlax.convolution_integer(x, w, implementation="xla", **rest)
