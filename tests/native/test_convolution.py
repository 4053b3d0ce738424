"""The native convolutions: random calls on every instruction set; threads, refusals."""

import concurrent.futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax

TARGET = "dmlax_convolution"
SCALES = {"input_scale": 0.1, "filter_scale": 0.2, "output_scale": 3.0}
CHECK = """
import sys
sys.path += [{tests!r}, {tests!r} + "/native"]
from convolution_calls import mismatches
from dmlax._core import native
print(native.instruction_set(), *mismatches({first}, {last}), sep="\\n")
"""


def check(name, on_instruction_set, first, last):
    here = on_instruction_set(name, "from dmlax._core import native; print(native.why_not('cpu'))")
    if here != "None":
        assert here.startswith("DMLAX_NATIVE_ISA names none of what this machine has: ")
        assert name not in here
        return
    tests = __file__.rsplit("/native", 1)[0]
    code = CHECK.format(tests=tests, first=first, last=last)
    assert on_instruction_set(name, code).splitlines() == [name]


@pytest.mark.parametrize("name", ["portable", "avx2", "avx_vnni", "avx512_vnni", "amx_int8"])
def test_random_calls_on_every_instruction_set(name, on_instruction_set):
    check(name, on_instruction_set, 0, 80)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["portable", "avx2", "avx_vnni", "avx512_vnni", "amx_int8"])
def test_many_random_calls_on_every_instruction_set(name, on_instruction_set):
    check(name, on_instruction_set, 80, 1000)


def layer(batch=2):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (batch, 16, 20, 20), np.uint8)
    w = rng.integers(-128, 128, (24, 16, 3, 3), np.int8)
    return x, w, rng.integers(-1000, 1000, 24, np.int32)


def test_vmap_is_one_call_of_the_kernel():
    x, w, bias = layer()

    def call(x, implementation):
        return dmlax.quantized_linear_convolution(
            x[None], w, bias, **SCALES, implementation=implementation
        )

    mapped = jax.jit(jax.vmap(lambda x: call(x, "native_cpu")))
    text = mapped.lower(x).as_text()
    assert text.count(f"@{TARGET}(") == 1
    assert "while" not in text.split(TARGET)[1]
    np.testing.assert_array_equal(mapped(x), [call(image, "xla") for image in x])


def test_auto_is_the_kernel_for_one_device_and_xla_in_an_export():
    call = jax.jit(lambda x, w, bias: dmlax.quantized_linear_convolution(x, w, bias, **SCALES))
    assert TARGET in call.lower(*layer()).as_text()
    exported = jax.export.export(call, platforms=["cpu", "cuda", "tpu"])(*layer())
    again = jax.export.deserialize(exported.serialize())
    assert TARGET not in again.mlir_module()
    np.testing.assert_array_equal(again.call(*layer()), call(*layer()))


def test_several_threads_may_call_at_once():
    x, w, bias = layer(8)
    call = jax.jit(lambda x: dmlax.quantized_linear_convolution(x[None], w, bias, **SCALES))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda image: np.asarray(call(image)), x))
    whole = dmlax.quantized_linear_convolution(x, w, bias, **SCALES, implementation="xla")
    np.testing.assert_array_equal(np.concatenate(found), whole)


def test_a_prepared_filter_is_not_packed_again():
    x, w, bias = layer()
    prepared = dmlax.prepare_filter(jnp.asarray(w))
    call = jax.jit(lambda x, w: dmlax.quantized_linear_convolution(x, w, bias, **SCALES))
    assert "transpose" in call.lower(x, w).as_text()
    assert "transpose" not in call.lower(x, prepared).as_text()
    np.testing.assert_array_equal(call(x, w), call(x, prepared))
