"""Tasks of a call that threads share: each runs once, whoever else calls."""

import threading
from functools import partial

import jax
import numpy as np
import pytest

import dmlax
from support import NATIVE

CALLERS, CALLS, LAYERS = 4, 25, 8


@pytest.mark.skipif(not NATIVE, reason="the kernels are not built")
def test_callers_meet_at_the_same_threads():
    """Layers follow one another at once, of calls from several threads."""
    layouts = "NHWC", "OIHW", "NHWC"
    random = np.random.default_rng(0)
    filter = random.integers(-128, 128, (64, 64, 1, 1), np.int8)
    prepared = dmlax.prepare_filter(filter, dimension_numbers=layouts, packing="auto")
    scales = {"input_scale": 0.02, "filter_scale": 0.01, "output_scale": 0.1}
    zero_points = {"input_zero_point": np.uint8(128), "output_zero_point": np.uint8(128)}
    options = {"dimension_numbers": layouts}
    convolve = partial(dmlax.quantized_linear_convolution, **scales, **zero_points, **options)
    scales = {"a_scale": 0.02, "b_scale": 0.01, "output_scale": 0.025}
    zero_points = {f"{name}_zero_point": np.uint8(128) for name in ("a", "b", "output")}
    add = partial(dmlax.element_wise_quantized_linear_add, **scales, **zero_points)

    @jax.jit
    def layers(x):
        for _ in range(LAYERS):
            x = add(x, convolve(x, prepared))
        return x

    images = random.integers(0, 256, (CALLERS, 1, 40, 40, 64), np.uint8)
    wanted = [np.asarray(layers(each)) for each in images]
    start, wrong = threading.Barrier(CALLERS), []

    def call(index):
        start.wait()
        for _ in range(CALLS):
            if not np.array_equal(layers(images[index]), wanted[index]):
                wrong.append(index)

    threads = [threading.Thread(target=call, args=(index,)) for index in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
