"""The convolution kernel for GPUs: the engine's matrix product, its left rows windows.

The rows are the output pixels of all images one after another, the columns output channels. A
window is gathered as it is copied to shared memory.
"""

import functools

import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability, gemm
from dmlax._cuda.block import Block, choose_schedule, shared_bytes
from dmlax._cuda.epilogue import Output
from dmlax._cuda.ir import Memory
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.product_types import Addend
from dmlax._cuda.tile import GemmProblem
from dmlax._operators.convolution.cuda.operands import WindowLoader, launch, scratch_words
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.cuda.sliding import SlidingLoader, SlidingWindows
from dmlax._operators.convolution.plan import Operands


def product_of(problem: ConvProblem) -> GemmProblem:
    """The matrix product of a convolution's windows and filter."""
    windows = SlidingWindows.of(problem)
    return GemmProblem(
        rows=windows.pixels if windows else problem.output_pixels,
        columns=problem.output_channels,
        depth=problem.depth,
        groups=problem.groups,
        unsigned=problem.plan.input.dtype == jnp.uint8,
        adds=problem.sum is not None,
        sums_rows=problem.sums_windows,
        gathers=True,
        sliding=windows.sliding if windows else None,
    )


def convolve(
    problem: ConvProblem,
    multiprocessors: int,
    operands: Operands,
    sums: Array,
    addend: Addend | None,
) -> Array:
    """(pixels, groups * stored channels), of (N, H, W, groups * channels) and (K, depth)."""
    product = product_of(problem)
    schedule = choose_schedule(
        product, multiprocessors, problem.stored_channels, capability.chosen()
    )
    windows = SlidingWindows.of(problem)
    loader = functools.partial(SlidingLoader, windows) if windows else WindowLoader

    def body(memory: Memory) -> None:
        block = Block(schedule, memory["shared"])
        parameters = Parameters(problem.types, memory, schedule.summed_depth)
        gemm.run(
            block,
            lambda copies: loader(problem, block, copies, memory, parameters),
            memory,
            parameters,
            Output(
                problem.stored_channels,
                row_distance=problem.groups * problem.stored_channels,
                group_distance=problem.stored_channels,
                place_of=windows.place_of if windows else None,
            ),
        )

    return launch(
        "dmlax_convolution",
        body,
        *(problem, operands, sums, addend),
        channels=problem.groups * problem.stored_channels,
        blocks=schedule.blocks,
        warpgroups=schedule.tile.warpgroups,
        shared_words=shared_bytes(schedule, problem.stored_channels) // 4,
        scratch_words=scratch_words(problem, schedule),
    )
