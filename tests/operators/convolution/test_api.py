"""Convolutions in other layouts, of many images, with large accumulators and wide biases."""

import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw, requantized, sums_of_products
from support.cases.convolution import (
    LAYOUTS,
    laid_out,
)

IMPLEMENTATIONS = ["xla", "reference", *NATIVE]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("images", [1, 3, 7, 8])
def test_a_batch_in_parts_is_the_batch_at_once(images, layout):
    """A 15x17 image has about half the columns that a part should have."""
    x, w = draw(20, np.uint8, (images, 3, 15, 17)), draw(21, np.uint8, (4, 3, 2, 2))
    order = LAYOUTS[layout]
    got = dmlax.convolution_integer(
        laid_out(x, "NCHW", order[0]),
        laid_out(w, "OIHW", order[1]),
        input_zero_point=np.uint8(7),
        filter_zero_point=np.uint8(130),
        dimension_numbers=order,
    )
    assert_same(laid_out(np.asarray(got), order[2], "NCHW"), sums_of_products(x, w, 7, 130))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_accumulators_beyond_int32_wrap(implementation):
    x = np.full((1, 33_100, 1, 1), 255, np.uint8)
    w = np.full((1, 33_100, 1, 1), 255, np.uint8)
    got = dmlax.convolution_integer(x, w, implementation=implementation)
    assert got.tolist() == [[[[33_100 * 255 * 255 - 2**32]]]]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_depthwise_accumulator_is_exact_with_a_large_kernel(implementation):
    x, w = draw(22, np.uint8, (1, 2, 14, 14)), draw(23, np.int8, (2, 1, 11, 11))
    got = dmlax.convolution_integer(x, w, group_count=2, implementation=implementation)
    assert_same(got, sums_of_products(x, w, group_count=2))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("above", [0, 2])
def test_a_bias_is_added_before_the_scales_and_wraps(implementation, above):
    """Accumulators are the bias, and the filter's sums so many times, modulo 2**32."""
    bias = np.array([-(2**31), -(2**31) + 1, -5, 0, 3, 2**31 - 1], np.int32)
    x, w = np.full((1, 2, 1, 1), 9 + above, np.uint8), draw(24, np.int8, (6, 2, 1, 1))
    scales = np.float32(2**-10), np.float32([2**-15, 2**-15, 512, 1, 512, 2**-15]), np.float32(1)
    names = dict(zip(("input_scale", "filter_scale", "output_scale"), scales, strict=True))
    options = {"input_zero_point": 9, "output_dtype": "int8", "implementation": implementation}
    got = dmlax.quantized_linear_convolution(x, w, bias, **names, **options)
    sums = bias.astype(np.int64) + above * w.reshape(6, 2).sum(axis=1, dtype=np.int64)
    wanted = requantized(sums.astype(np.int32), scales, 0, np.int8)
    assert_same(np.asarray(got).reshape(-1), wanted)


def test_window_options_follow_the_filters_spatial_axes_as_in_lax():
    x, w = draw(25, np.uint8, (1, 2, 7, 9)), draw(26, np.int8, (3, 2, 2, 3))
    windows = {
        "strides": (2, 1),
        "dilations": (1, 3),
        "start_padding": (0, 2),
        "end_padding": (1, 0),
    }
    layout = ("NCHW", "OIWH", "NCHW")
    swapped = {name: value[::-1] for name, value in windows.items()}
    got = dmlax.convolution_integer(x, w.swapaxes(2, 3), dimension_numbers=layout, **swapped)
    assert_same(got, sums_of_products(x, w, **windows))
