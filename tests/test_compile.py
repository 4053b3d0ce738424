"""Kernels of a program: found in it, and compiled by threads before it is."""

import contextlib
import re
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
import dmlax._compile
from dmlax._compile import compiling_kernels, find_kernels
from dmlax._cuda import capability
from dmlax.onnx import compiled
from dmlax.onnx.compiled import CompiledModel

IMAGE = jax.ShapeDtypeStruct((2, 8, 8, 16), jnp.uint8)
FILTER = jax.ShapeDtypeStruct((16, 16, 3, 3), jnp.int8)
convolve = partial(
    dmlax.quantized_linear_convolution,
    input_scale=0.1,
    filter_scale=0.2,
    output_scale=3.0,
    dimension_numbers=("NHWC", "OIHW", "NHWC"),
    implementation="mosaic_gpu",
)
keep_size = partial(convolve, padding=((1, 1), (1, 1)))


def three_layers(x, w):
    """Two of one kernel, and another."""
    return convolve(keep_size(keep_size(x, w), w), w)


def lower(function, *operands):
    return jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",))


@pytest.fixture
def program(attached, written):
    """A program for CUDA, of three layers and two kernels."""
    return lower(three_layers, IMAGE, FILTER)


def test_equal_kernels_are_found_once(program):
    kernels = find_kernels(program)
    assert [kernel.operands[0].shape for kernel in kernels] == [(2 * 8 * 8 * 16,)] * 2
    sizes = [kernel.outputs[0].shape for kernel in kernels]
    assert sizes == [(2 * 8 * 8, 16), (2 * 6 * 6, 16)]


def test_a_kernel_by_itself_is_the_one_of_the_program(program):
    for kernel in find_kernels(program):
        alone = lower(kernel.call, *kernel.operands)
        assert find_kernels(alone) == [kernel]


def test_kernels_inside_loops_are_found(attached, written):
    def loop(x, w):
        return jax.lax.fori_loop(0, 3, lambda _, x: keep_size(x, w), x)

    assert len(find_kernels(lower(loop, IMAGE, FILTER))) == 1


def test_a_program_for_another_platform_has_none():
    assert find_kernels(jax.jit(jnp.sin).lower(np.float32(1))) == []


@pytest.mark.parametrize(
    ("name", "value"), [("_TARGET", "other"), ("_ATTRIBUTES", "other"), ("_DTYPES", {})]
)
def test_what_another_jax_writes_is_not_read(program, monkeypatch, name, value):
    monkeypatch.setattr(dmlax._compile, name, value)
    assert find_kernels(program) == []


@pytest.fixture
def compilations(monkeypatch):
    """The programs that are compiled; a CPU stands for the GPU that they are lowered for."""
    found = []
    cpu = jax.devices("cpu")
    monkeypatch.setattr(jax, "local_devices", lambda *args, **options: cpu)
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered: found.append(lowered))
    return found


def compile_kernels(lower):
    with compiling_kernels(lower):
        pass


def hashes(program):
    return [kernel.attributes["kernel_hash"] for kernel in find_kernels(program)]


def test_each_kernel_is_compiled_as_a_program_of_its_own(attached, written, compilations):
    jax.clear_caches()
    for _ in range(2):  # lowered then, and before
        compile_kernels(lambda: lower(three_layers, IMAGE, FILTER))
        alone = [hash for each in compilations for hash in hashes(each)]
        assert sorted(alone) == sorted(hashes(lower(three_layers, IMAGE, FILTER)))
        assert len(set(alone)) == 2
        compilations.clear()


def test_a_program_of_kernels_lowered_before_is_the_same(program, compilations):
    texts = []
    jax.clear_caches()

    def lower_again():
        again = lower(three_layers, IMAGE, FILTER)
        texts.append(again.as_text())
        return again

    compile_kernels(lower_again)
    assert kernel_lines(texts[0]) == kernel_lines(program.as_text())


def kernel_lines(text):
    """The calls of kernels, without the names of their operands."""
    return [re.sub("%[0-9a-z]+", "%", line) for line in text.splitlines() if "mosaic_gpu" in line]


def test_equal_kernels_of_two_programs_have_one_hash(attached, written):
    found = []
    for _ in range(2):
        jax.clear_caches()
        found.append(hashes(lower(three_layers, IMAGE, FILTER)))
    assert found[0] == found[1]


def test_with_a_persistent_cache_the_program_does_not_wait(program, compilations, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    threads = []
    try:
        with compiling_kernels(lambda: program):
            threads += [each for each in threading.enumerate() if "ThreadPool" in each.name]
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    for thread in threads:
        thread.join()
    alone = [hash for each in compilations for hash in hashes(each)]
    assert {*alone} <= {*hashes(program)}
    assert threads


def test_an_error_is_left_to_the_program(attached, written, compilations, monkeypatch):
    asked = []

    def fail(lowered):
        asked.append(lowered)
        raise RuntimeError("no ptxas")

    monkeypatch.setattr(jax.stages.Lowered, "compile", fail)
    jax.clear_caches()
    compile_kernels(lambda: lower(three_layers, IMAGE, FILTER))
    assert len(asked) == 2


# The model that calls it.


@pytest.fixture
def programs(monkeypatch):
    """The programs whose kernels a model has compiled."""
    found = []

    @contextlib.contextmanager
    def keep(lower):
        found.append(lower())
        yield

    monkeypatch.setattr(compiled, "compiling_kernels", keep)
    monkeypatch.setattr(compiled, "compiler_options", lambda: {"xla_cpu_enable_fast_math": False})
    return found


@pytest.fixture
def model():
    """A model of one product, and its params."""
    params = {"w": jnp.arange(3.0)}
    return CompiledModel(
        lambda params, inputs: {"y": params["w"] * inputs["x"].astype("f4")}, params
    ), params


def x_of(shape, dtype=np.float32):
    return {"x": np.ones(shape, dtype)}


def test_the_first_call_for_a_shape_compiles_the_kernels(attached, programs, model):
    call, params = model
    for _ in range(2):
        assert call(params, x_of((2, 3)))["y"].tolist() == [[0, 1, 2]] * 2
    assert len(programs) == 1
    call(params, {"x": jnp.ones((4, 3))})
    call(params, x_of((2, 3), np.int8))
    assert len(programs) == 3
    assert "tensor<4x3xf32>" in programs[1].as_text()


def test_where_no_gpu_is_attached_nothing_is_lowered_before(monkeypatch, programs, model):
    monkeypatch.setattr(capability, "why_not", lambda platform: "no GPU")
    call, params = model
    assert call(params, x_of(3))["y"].tolist() == [0, 1, 2]
    assert not programs


def test_a_call_inside_a_program_is_left_to_it(attached, programs, model):
    call, params = model
    found = jax.jit(lambda inputs: call(params, inputs))(x_of(3))
    assert found["y"].tolist() == [0, 1, 2]
    assert not programs


def test_other_params_are_left_to_their_program(attached, programs, model):
    call, _ = model
    assert call({"w": jnp.ones(3)}, x_of(3))["y"].tolist() == [1, 1, 1]
    assert not programs
