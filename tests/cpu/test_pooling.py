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
