"""The kernel of products of at most eight rows: its threads, emulated, give the sums' bits."""

from functools import partial

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core import dispatch
from dmlax._cuda import capability, tuning
from dmlax._operators.matmul import xla
from dmlax._operators.matmul.api import QUANTIZED
from dmlax._operators.matmul.cuda import lowering
from support import draw
from support.calls.matmul import call as random_call
from support.calls.matmul import sums
from support.emulated import threads as emulated_threads


@pytest.fixture
def launched(monkeypatch, written):
    """The tiles of the kernels that run, by their threads, which are emulated."""
    from dmlax._operators.matmul.cuda import few_rows, kernel

    tiles, multiply = [], few_rows.multiply

    def emulate(problem, multiprocessors, operands):
        def on_host(operands):
            with monkeypatch.context() as patched:
                patched.setattr(few_rows, "launch", emulated_threads.launch(patched))
                return multiply(problem, multiprocessors, jax.tree.map(np.asarray, operands))

        assert few_rows.takes(problem, operands)
        tiles.append(few_rows.choose_tile(problem, multiprocessors))
        shape = jax.ShapeDtypeStruct(problem.output_sizes, problem.types.output)
        return jax.pure_callback(on_host, shape, operands)

    monkeypatch.setattr(kernel, "multiply", emulate)
    monkeypatch.setattr(capability, "refuse_elsewhere", lambda operator, x, why: x)
    monkeypatch.setattr(
        dispatch.Operator, "call", lambda operator, *planned: lowering.run(*planned[:2])
    )
    return tiles


def has_few_rows(call):
    """True for at most eight rows, all by one right matrix."""
    return call.x.size <= 8 * call.x.shape[-1] and call.b.ndim == 2 and not call.mapped


SEEDS = [seed for seed in range(90) if has_few_rows(random_call(seed))]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_calls(launched, seed):
    call = random_call(seed)
    got = np.asarray(jax.jit(lambda call: call("mosaic_gpu"))(call))
    assert launched
    np.testing.assert_array_equal(got, call.expected(), strict=True)


def test_lookups_of_several_tables(launched):
    a, b = draw(1, np.uint8, (3, 64)), draw(2, np.int8, (64, 48))
    scales = {"a_scale": 0.01, "b_scale": 0.02, "output_scale": 1.0}
    entries = draw(3, np.uint8, (2, 256))
    planned = QUANTIZED.plan(a, b, **scales)
    looked_up = jax.jit(lambda: lowering.run_with_lookup(*planned, entries))()
    outputs = jax.jit(lambda: xla.run(*planned))()
    np.testing.assert_array_equal(looked_up, entries[np.arange(48) // 24, outputs])
    assert launched


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "streams"),
    [(8, 1040, 40, False), (1, 4112, 19, False), (2, 12_304, 5, True), (5, 1024, 1100, False)],
)
def test_long_sums(monkeypatch, launched, rows, depth, columns, streams):
    monkeypatch.setattr(tuning, "FEWEST_STREAMED_BYTES", 0 if streams else 2**23)
    a, b = draw(1, np.int8, (rows, depth)), draw(2, np.int8, (depth, columns))
    prepared = dmlax.prepare_matrix(b, b_zero_point=3)
    multiply = partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu")
    np.testing.assert_array_equal(jax.jit(multiply)(a, prepared), sums(a, b, 0, 3))
    assert [tile.threads > 32 * tile.deep for tile in launched] == [not streams]
