"""The product loop of GPUs without `wgmma`: its threads, emulated, give the sums' bits."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest

import dmlax
from dmlax._core import dispatch
from dmlax._cuda import capability, tuning
from dmlax._operators.convolution.cuda import lowering as convolution
from dmlax._operators.matmul.cuda import lowering as matmul
from support import draw
from support.calls import convolution as convolutions
from support.calls import matmul as products
from support.emulated import threads as emulated_threads

ROWS = (2, 392, 6272, 100_352)
COLUMNS = (1, 17, 64, 256, 2048)
DEPTHS = (16, 64, 256, 576, 18_432)
OTHER_REGISTERS = 40  # of a thread, without accumulators
MULTIPROCESSORS = 4  # a block then makes several tiles


@pytest.fixture
def launched(monkeypatch, written):
    """The schedules of the kernels that run, by their threads, which are emulated."""
    from dmlax._operators.convolution.cuda import kernel as convolving
    from dmlax._operators.convolution.cuda import operands as convolution_operands
    from dmlax._operators.matmul.cuda import few_rows, kernel

    schedules = []

    def emulate(module, name, launching, output):
        compute = getattr(module, name)

        def run(problem, multiprocessors, *operands):
            def on_host(*operands):
                with monkeypatch.context() as patched:
                    patched.setattr(launching, "launch", emulated_threads.launch(patched))
                    given = jax.tree.map(np.asarray, operands)
                    return np.asarray(compute(problem, MULTIPROCESSORS, *given))

            shape = jax.eval_shape(lambda *x: output(problem, x), *operands)
            return jax.pure_callback(on_host, shape, *operands)

        monkeypatch.setattr(module, name, run)

    def of_product(problem, operands):
        return jax.numpy.zeros(problem.output_sizes, problem.types.written)

    def of_convolution(problem, operands):
        sizes = problem.output_pixels, problem.groups * problem.stored_channels
        return jax.numpy.zeros(sizes, problem.types.written)

    emulate(kernel, "multiply", kernel, of_product)
    emulate(convolving, "convolve", convolution_operands.cuda_launch, of_convolution)
    for module in (kernel, convolving):
        choose = module.choose_schedule

        def keep(*given, choose=choose):
            schedules.append(choose(*given))
            return schedules[-1]

        monkeypatch.setattr(module, "choose_schedule", keep)
    monkeypatch.setattr(few_rows, "takes", lambda problem, operands: False)
    monkeypatch.setattr(capability, "chosen", lambda: capability.CAPABILITIES["8.0"])
    monkeypatch.setattr(capability, "refuse_elsewhere", lambda operator, x, why: x)

    def call(operator, plan, operands, implementation="auto"):
        lowering = convolution if "convolution" in operator.name else matmul
        return lowering.run(plan, operands)

    monkeypatch.setattr(dispatch.Operator, "call", call)
    return schedules


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_products(launched, seed):
    call = products.call(seed)
    got = np.asarray(jax.jit(lambda call: call("mosaic_gpu"))(call))
    assert launched
    assert all(schedule.tile.by_warps for schedule in launched)
    np.testing.assert_array_equal(got, call.expected(), strict=True)


def multiplies(call):
    """True for a convolution by a product."""
    return call.x.size > 0 and (call.groups == 1 or call.w.shape[1] > 1)


SEEDS = [seed for seed in range(52) if multiplies(convolutions.call(seed))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_convolutions(launched, seed):
    call = convolutions.call(seed)
    got = np.asarray(jax.jit(lambda: call("mosaic_gpu"))())
    assert launched
    assert all(schedule.tile.by_warps for schedule in launched)
    np.testing.assert_array_equal(got, call.expected(), strict=True)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "zero"),
    [
        (600, 300, 200, 0),
        (1100, 64, 40, 3),
        (130, 1500, 300, 3),
        (40, 700, 20, 0),
        (2000, 16, 128, 3),
    ],
)
def test_large_products(launched, rows, depth, columns, zero):
    a, b = draw(rows, np.uint8, (rows, depth)), draw(columns, np.int8, (depth, columns))
    multiply = partial(dmlax.matrix_multiply_integer, implementation="mosaic_gpu")
    got = jax.jit(multiply)(a, b, a_zero_point=7, b_zero_point=np.int8(zero))
    assert launched
    np.testing.assert_array_equal(got, products.sums(a, b, 7, zero))


@pytest.mark.parametrize(("channels", "kernel"), [(64, 3), (16, 4)])
@pytest.mark.parametrize("padding", [0, 1])
def test_windows_that_slide(launched, monkeypatch, channels, kernel, padding):
    monkeypatch.setattr(tuning, "FEWEST_SLIDING_PIXELS", 0)
    x = draw(1, np.uint8, (2, 15, 14, channels))
    w = draw(2, np.int8, (64, channels, kernel, kernel))
    options = {"dimension_numbers": ("NHWC", "OIHW", "NHWC"), "input_zero_point": np.uint8(7)}
    options |= {"start_padding": (padding,) * 2, "end_padding": (padding,) * 2}
    got = jax.jit(partial(dmlax.convolution_integer, **options))(x, w)
    assert [schedule.problem.sliding is not None for schedule in launched] == [True]
    wanted = jax.lax.conv_general_dilated(
        x.astype(np.int32) - 7,
        w.astype(np.int32),
        (1, 1),
        [(padding, padding)] * 2,
        dimension_numbers=options["dimension_numbers"],
        preferred_element_type=np.int32,
    )
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("version", capability.CAPABILITIES)
def test_every_block_fits_a_multiprocessor(written, version):
    from dmlax._cuda.block import choose_schedule, has_room, shared_bytes
    from dmlax._cuda.tile import GemmProblem

    gpu = capability.CAPABILITIES[version]
    for rows, columns, depth in itertools.product(ROWS, COLUMNS, DEPTHS):
        for adds, sums_rows in itertools.product((False, True), (False, not gpu.wgmma)):
            problem = GemmProblem(rows, columns, depth, adds=adds, sums_rows=sums_rows)
            schedule = choose_schedule(problem, 108, columns, gpu)
            tile = schedule.tile
            assert has_room(schedule, columns), problem
            assert shared_bytes(schedule, columns) + capability.RESERVED <= gpu.shared_bytes
            assert tile.by_warps != gpu.wgmma
            assert tile.blocks * tile.threads <= gpu.threads
            assert tile.blocks <= gpu.blocks
            accumulators = tile.products * (tile.columns // 2 + 4 * sums_rows)
            registers = capability.REGISTERS // (tile.blocks * tile.threads)
            assert min(registers, 255) >= accumulators + OTHER_REGISTERS, problem
