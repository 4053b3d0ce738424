"""The native kernels of the pools and of dynamic quantization: threads."""

import functools

import jax
import numpy as np
import pytest

import dmlax
from support import assert_same, draw

SCALES = {"input_scale": 0.3, "output_scale": 0.1}


def dynamic_quantize(x, **how):
    x = x.astype(np.float32) / 7
    return dmlax.dynamic_quantize_linear(x, output_dtype=np.int8, **how)


LARGE = {  # threads share these
    "max": lambda x, **how: dmlax.max_pooling(x, window_size=3, strides=2, start_padding=1, **how),
    "average": lambda x, **how: dmlax.quantized_linear_average_pooling(
        x, window_size=(3, 2), end_padding=1, **SCALES, **how
    ),
    "global": lambda x, **how: dmlax.quantized_linear_global_average_pooling(x, **SCALES, **how),
    "dynamic": dynamic_quantize,
    "dynamic, a range an image": lambda x, **how: jax.vmap(
        functools.partial(dynamic_quantize, **how)
    )(x),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_inputs_are_shared_between_threads(name):
    x = draw(1, np.uint8, (2, 140, 61, 67))
    found, wanted = (LARGE[name](x, implementation=which) for which in ("native_cpu", "xla"))
    jax.tree.map(assert_same, found, wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(1, 17, 19, 2051), (2, 4, 4, 3), (1, 7, 7, 2048)])
@pytest.mark.parametrize("fill", [None, 255])
def test_global_sums_of_many_channels_are_exact(shape, dtype, fill):
    """The kernel sums pairs of channels in 16 bits, 256 pixels and 2,048 channels at a time."""
    x = draw(2, np.uint8, shape) if fill is None else np.full(shape, fill, np.uint8)
    x = x.view(dtype)
    pixels = shape[1] * shape[2]
    found = dmlax.quantized_linear_global_average_pooling(
        x,
        input_scale=1,
        output_scale=np.float32(1 / 64),
        input_zero_point=x[0, 0, 0, 0],
        dimension_numbers="NHWC",
        output_dtype=np.int8,
        implementation="native_cpu",
    )
    totals = 64 * (np.int64(x) - np.int64(x[0, 0, 0, 0])).sum((1, 2), keepdims=True)
    expected = np.clip(np.rint(totals / pixels), -128, 127)
    np.testing.assert_array_equal(found, expected)
