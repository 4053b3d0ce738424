"""The native kernels of the pools and of dynamic quantization on every instruction set."""

import jax
import numpy as np
import pytest

import dmlax
from cpu.instruction_sets import NAMES
from support import assert_same, draw

MODULES = ["pooling_calls", "dynamic_quantize_calls"]
every_set = pytest.mark.parametrize("name", NAMES)
SCALES = {"input_scale": 0.3, "output_scale": 0.1}


@every_set
@pytest.mark.parametrize("module", MODULES)
def test_random_calls_on_every_instruction_set(name, module, check_random_calls):
    check_random_calls(name, module, 0, 20)


@pytest.mark.slow
@every_set
@pytest.mark.parametrize("module", MODULES)
def test_many_random_calls_on_every_instruction_set(name, module, check_random_calls):
    check_random_calls(name, module, 20, 2000)


LARGE = {  # threads share these
    "max": lambda x, **how: dmlax.max_pooling(x, window_size=3, strides=2, start_padding=1, **how),
    "average": lambda x, **how: dmlax.quantized_linear_average_pooling(
        x, window_size=(3, 2), end_padding=1, **SCALES, **how
    ),
    "global": lambda x, **how: dmlax.quantized_linear_global_average_pooling(x, **SCALES, **how),
    "dynamic": lambda x, **how: dmlax.dynamic_quantize_linear(
        x.astype(np.float32) / 7, output_dtype=np.int8, **how
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_inputs_are_shared_between_threads(name):
    x = draw(1, np.uint8, (2, 140, 61, 67))
    found, wanted = (LARGE[name](x, implementation=which) for which in ("native_cpu", "xla"))
    jax.tree.map(assert_same, found, wanted)
