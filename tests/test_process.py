"""Nothing that a caller does ends the process, or leaves it in a bad state.

What may end a process runs in a child, so that a crash is a failure with the call's own words.
"""

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax import directml
from dmlax._cpu import library
from dmlax.directml import BufferTensorDesc, DataType, FeatureLevel
from support import needs_kernels
from support.hostile.handlers import CALLS as HANDLERS
from support.hostile.options import CALLS as OPERATORS
from support.memory import resident

HERE = Path(__file__).parent
POOLS = ("max_pooling", "quantized_linear_average_pooling")
CONVOLUTIONS = tuple(name for name in OPERATORS if "convolution" in name)
GROUPS = POOLS, CONVOLUTIONS, tuple(set(OPERATORS) - {*POOLS, *CONVOLUTIONS})
SHAPED = ("dmlax_max_pooling_v1", "dmlax_average_pooling_v1", "dmlax_convolution_v1")
TARGETS = SHAPED, tuple(set(HANDLERS) - set(SHAPED))
HUGE = (2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64, -1, -(2**63))


def run(program, *arguments, **environment):
    """Runs a program of the helpers; its last lines say what ended it."""
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=HERE,
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = done.stdout.splitlines()[-15:] + done.stderr.splitlines()[-15:]
    assert done.returncode == 0, "\n".join([f"ended with {done.returncode}:", *told])


@pytest.mark.parametrize("names", GROUPS, ids=("pools", "convolutions", "others"))
def test_options_of_any_size_are_computed_or_refused(names):
    run("support.hostile.options", *sorted(names))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_many_options_of_any_size_are_computed_or_refused(name):
    run("support.hostile.options", name, EXAMPLES="500")


def test_every_operator_and_handler_is_given_them():
    public = {name for name in dmlax.__all__ if hasattr(getattr(dmlax, name), "__wrapped__")}
    assert public - {"prepare_matrix", "explain"} <= set(OPERATORS)
    assert set(library.TARGETS) == set(HANDLERS)


@needs_kernels
@pytest.mark.parametrize("targets", TARGETS, ids=("windows", "others"))
def test_handlers_refuse_or_answer_hostile_attributes(targets):
    run("support.hostile.handlers", "0", *sorted(targets))


@needs_kernels
@pytest.mark.slow
@pytest.mark.parametrize("target", HANDLERS)
def test_handlers_refuse_or_answer_many_hostile_attributes(target):
    run("support.hostile.handlers", "1", target, CALLS="500")


# --- descs ------------------------------------------------------------------------------

TENSOR = {"data_type": DataType.UINT8, "sizes": (1, 1, 5, 5)}
POOL = {
    "dimension_count": 2,
    "strides": (1, 1),
    "window_size": (1, 1),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
    "dilations": (1, 1),
}


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("field", [*POOL, "sizes", "tensor_strides", "total_tensor_size_in_bytes"])
def test_an_integer_of_a_desc_is_refused_or_run(field, huge):
    options, tensor = dict(POOL), dict(TENSOR)
    of = options if field in POOL else tensor
    name = field.removeprefix("tensor_")
    single = isinstance(of.get(name), int) or name.startswith("total")
    of[name] = huge if single else (*of.get(name, (25, 25, 5, 1))[:-1], huge)
    with contextlib.suppress(dmlax.SpecError, dmlax.UnsupportedError):
        given = BufferTensorDesc(**tensor)
        desc = directml.MaxPooling2OperatorDesc(
            input_tensor=given, output_tensor=BufferTensorDesc(**TENSOR), **options
        )
        call = directml.create_operator(desc, feature_level=FeatureLevel.LEVEL_5_0)
        shape = jax.ShapeDtypeStruct(given.shape, np.uint8)
        jax.eval_shape(lambda x: call(input_tensor=x), shape)


# --- threads, forks, signals, donation, leaks -------------------------------------------

X = np.arange(2 * 8 * 9 * 9, dtype=np.uint8).reshape(2, 8, 9, 9)
W = (np.arange(8 * 8 * 9) % 251).astype(np.uint8).view(np.int8).reshape(8, 8, 3, 3)
SCALES = {"input_scale": 0.5, "filter_scale": 0.25, "output_scale": 16.0}


def layer(x):
    """A convolution, a pool and the coordinates of nonzero elements."""
    y = dmlax.quantized_linear_convolution(x, W, **SCALES)
    pooled = dmlax.max_pooling(y, window_size=2, strides=2)
    return pooled, dmlax.nonzero_coordinates(pooled, size=64)


def numbers(outputs):
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(outputs)]


@pytest.mark.parametrize("calls", [400, pytest.param(16_000, marks=pytest.mark.slow)])
def test_threads_get_the_results_of_one(calls):
    call = jax.jit(layer)
    wanted = numbers(call(X))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: numbers(call(X)) == wanted, range(calls))
        assert all(found)


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_leaves_the_parent_as_it_was():
    call = jax.jit(layer)
    wanted = numbers(call(X))
    for _ in range(5):
        if (child := os.fork()) == 0:
            os._exit(7)
        assert numbers(call(X)) == wanted
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_signals_interrupt_no_kernel():
    call = jax.jit(layer)
    wanted, caught = numbers(call(X)), []
    before = signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert numbers(call(X)) == wanted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(caught) > 10


def test_a_donated_input_is_given_up_and_the_results_stay():
    wanted = numbers(layer(X))
    call = jax.jit(lambda x: (*layer(x), x + np.uint8(1)), donate_argnums=0)
    for _ in range(20):
        x = jnp.asarray(X.copy())
        *found, after = call(x)
        assert numbers(found) == wanted
        assert x.is_deleted()
        np.testing.assert_array_equal(after, X + np.uint8(1))


def test_calls_leak_nothing():
    call, x = jax.jit(layer), jnp.asarray(X)
    for _ in range(500):
        jax.block_until_ready(call(x))
    before = resident()
    for _ in range(2_000):
        jax.block_until_ready(call(x))
    assert resident() - before < 16 << 20


@pytest.mark.slow
@needs_kernels
def test_a_million_calls_leak_nothing(memory_gained):
    def call(x):
        floats = dmlax.element_wise_dequantize_linear(x, 0.1)
        return layer(x), dmlax.element_wise_quantize_linear(floats, 0.1)

    assert memory_gained(jax.jit(call), jnp.asarray(X), jnp.tile(X, (8, 1, 1, 1))) < 16 * 1024
