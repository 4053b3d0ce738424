"""Cells under one stride, side by side as the channels of one cell, where channels are few.

Whatever its place, a window then begins at a cell, and 16 bytes of it are copied at once, not 4.
A kernel that does not fill its cells is filled with the filter's zero point, which adds nothing.
"""

import math

import jax.numpy as jnp
from jax import Array, lax

from dmlax._convolution.mosaic_gpu_problem import Problem
from dmlax._convolution.prepare import Prepared, zero_of


def fold_input(problem: Problem, x: Array, zero_point: Array | None) -> Array:
    """(N, H, W, C) with the problem's cells; what an edge cell lacks are zero points."""
    rows, columns = problem.fold
    x = x.reshape(problem.images, -1, *x.shape[-2:])
    missing = [
        cells * size - there
        for cells, size, there in zip(problem.fold, problem.input, x.shape[1:3], strict=True)
    ]
    if any(missing):
        filling = x.dtype.type(0) if zero_point is None else zero_point.reshape(())
        x = lax.pad(x, filling, [(0, 0, 0), *((0, count, 0) for count in missing), (0, 0, 0)])
    height, width = problem.input
    x = x.reshape(problem.images, height, rows, width, columns * x.shape[-1])
    # Not transposed: XLA's transposition of words took six times as long as this on an H200.
    return jnp.concatenate([x[:, :, row] for row in range(rows)], -1)


def fold_filter(problem: Problem, filter: Prepared) -> Prepared:
    """Rows of taps as the problem's cells have them, and their sums."""
    outputs, channels = problem.plan.filter.outputs, problem.channels // math.prod(problem.fold)
    zero = zero_of(problem.plan.filter, filter)
    around = [
        (before, cells * size - before - there, 0)
        for before, cells, size, there in zip(
            problem.taps_before, problem.fold, problem.kernel, problem.kernel_there, strict=True
        )
    ]
    byte = zero.astype(jnp.int8).reshape(-1, 1, 1, 1)
    rows = filter.packed.reshape(outputs, *problem.kernel_there, channels)
    rows = lax.pad(rows - byte, jnp.int8(0), [(0, 0, 0), *around, (0, 0, 0)]) + byte
    (height, width), (down, across) = problem.kernel, problem.fold
    cells = rows.reshape(outputs, height, down, width, across * channels)
    packed = jnp.swapaxes(cells, 2, 3).reshape(outputs, -1)
    added = packed.shape[1] - filter.packed.shape[1]
    return filter._replace(packed=packed, sums=filter.sums + added * zero.reshape(-1))
