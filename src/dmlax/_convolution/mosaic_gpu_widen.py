"""Few channels made more, as a kernel copies and multiplies many bytes as fast as few.

The cells under one stride lie side by side as the channels of one, so that a window begins at a
cell whatever its place. Or several groups are one: a filter's row has places for all their
channels. What the filter then lacks is its zero point, which adds nothing.
"""

import math

import jax.numpy as jnp
from jax import Array, lax

from dmlax._convolution.mosaic_gpu_problem import Problem
from dmlax._convolution.prepare import Prepared, zero_of


def merge_groups(problem: Problem, filter: Prepared) -> Prepared:
    """Rows of taps of all the channels that the problem's groups have."""
    merged, channels = problem.merged, problem.channels // problem.merged
    rows = filter.packed.reshape(problem.groups, merged, problem.outputs // merged, -1, 1, channels)
    own = jnp.eye(merged, dtype=bool).reshape(merged, 1, 1, merged, 1)
    zero = _zeros(problem, filter).reshape(*rows.shape[:3], 1, 1, 1)
    return _replaced(problem, filter, jnp.where(own, rows, zero))


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
    """Rows of taps as the problem's cells have them."""
    channels = problem.channels // math.prod(problem.fold)
    around = [
        (before, cells * size - before - there, 0)
        for before, cells, size, there in zip(
            problem.taps_before, problem.fold, problem.kernel, problem.kernel_there, strict=True
        )
    ]
    zero = _zeros(problem, filter).reshape(-1, 1, 1, 1)
    rows = filter.packed.reshape(-1, *problem.kernel_there, channels)
    rows = lax.pad(rows - zero, jnp.int8(0), [(0, 0, 0), *around, (0, 0, 0)]) + zero
    (height, width), (down, across) = problem.kernel, problem.fold
    cells = rows.reshape(-1, height, down, width, across * channels)
    return _replaced(problem, filter, jnp.swapaxes(cells, 2, 3))


def _zeros(problem: Problem, filter: Prepared) -> Array:
    """int8 (K,): what stands for 0 in each row."""
    outputs = problem.plan.filter.outputs
    return jnp.broadcast_to(zero_of(problem.plan.filter, filter).astype(jnp.int8), (outputs,))


def _replaced(problem: Problem, filter: Prepared, rows: Array) -> Prepared:
    """The filter with longer rows, and their sums."""
    packed = rows.reshape(problem.plan.filter.outputs, -1)
    added = packed.shape[1] - filter.packed.shape[1]
    zeros = _zeros(problem, filter).astype(jnp.int32)
    return filter._replace(packed=packed, sums=filter.sums + added * zeros)
