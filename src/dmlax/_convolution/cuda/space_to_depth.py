"""Few channels made more, as a kernel copies and multiplies many bytes as fast as few.

The cells under one stride are folded: side by side they are the channels of one, so that a window
begins at a cell whatever its place. Or several groups are merged: a filter's row has places for
all their channels. What the filter then lacks is its zero point, which adds nothing.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from dmlax._convolution.cuda.problem import Problem
from dmlax._convolution.prepare import Prepared, zero_of
from dmlax._core.byte_packing import pad_end
from dmlax._cuda import capability

_MERGED = 64  # channels, and outputs, of merged groups at most


@dataclass(frozen=True)
class Widening:
    """How few channels are made more: one of both at most."""

    narrow: Problem
    fold: tuple[int, int] = (1, 1)  # cells along each axis that are one
    merged: int = 1  # groups that are one

    @classmethod
    def of(cls, problem: Problem) -> "Widening":
        """What was fastest on an H200."""
        if problem.depthwise:
            return cls(problem)
        if problem.groups > 1:
            return cls(problem, merged=_mergeable(problem))
        return cls(problem, fold=_foldable(problem))

    @property
    def problem(self) -> Problem:
        """With the same outputs."""
        narrow = self.narrow
        axes = map(_Axis, narrow.input, narrow.kernel, narrow.strides, narrow.padding)
        down, across = map(_fold_axis, axes, narrow.output, self.fold)
        return replace(
            narrow,
            input=(down.input, across.input),
            kernel=(down.kernel, across.kernel),
            strides=(down.stride, across.stride),
            padding=(down.padding, across.padding),
            groups=narrow.groups // self.merged,
            channels=narrow.channels * math.prod(self.fold) * self.merged,
        )

    def input(self, x: Array, zero_point: Array | None) -> Array:
        """The problem's, of the narrow one's, both in whole words; zero points where cells end."""
        if self.fold == (1, 1):
            return x
        (rows, columns), (height, width) = self.fold, self.problem.input
        x = x.reshape(self.narrow.images, *self.narrow.input, -1)
        x = pad_end(x, height * rows - x.shape[1], zero_point, axis=1)
        x = pad_end(x, width * columns - x.shape[2], zero_point, axis=2)
        x = x.reshape(self.narrow.images, height, rows, width, columns * x.shape[-1])
        # Not transposed: XLA's transposition of words took six times as long on an H200.
        return jnp.concatenate([x[:, :, row] for row in range(rows)], -1)

    def filter(self, filter: Prepared) -> Prepared:
        """The problem's, of the narrow one's, both in whole words."""
        if self.problem.channels == self.narrow.channels:
            return filter
        zero = zero_of(self.narrow.plan.filter, filter)
        zeros = jnp.broadcast_to(zero, filter.sums.shape)
        rows = filter.packed.reshape(-1, *self.narrow.kernel, self.narrow.channels)
        rows = self._merge(rows, zeros.astype(jnp.int8))
        rows = self._fold(rows, zeros.astype(jnp.int8)).reshape(filter.packed.shape[0], -1)
        added = rows.shape[1] - filter.packed.shape[1]
        return filter._replace(packed=rows, sums=filter.sums + added * zeros)

    def _merge(self, rows: Array, zeros: Array) -> Array:
        """(K, taps, channels) with places for the channels of all merged groups."""
        outputs, kernel, channels = rows.shape[0], rows.shape[1:3], rows.shape[3]
        rows = rows.reshape(-1, self.merged, self.narrow.outputs, *kernel, 1, channels)
        own = jnp.eye(self.merged, dtype=bool).reshape(self.merged, 1, 1, 1, self.merged, 1)
        merged = jnp.where(own, rows, zeros.reshape(*rows.shape[:3], 1, 1, 1, 1))
        return merged.reshape(outputs, *kernel, self.merged * channels)

    def _fold(self, rows: Array, zeros: Array) -> Array:
        """(K, taps, channels) with taps before and after those there, a cell's together."""
        (down, across), (height, width) = self.fold, self.problem.kernel
        around = [(0, 0, 0)]
        for (start, _), cells, there, taps in zip(
            self.narrow.padding, self.fold, self.narrow.kernel, self.problem.kernel, strict=True
        ):
            before = _taps_before(start, cells)
            around.append((before, cells * taps - before - there, 0))
        zeros = zeros.reshape(-1, 1, 1, 1)
        rows = lax.pad(rows - zeros, jnp.int8(0), [*around, (0, 0, 0)]) + zeros
        return jnp.swapaxes(rows.reshape(-1, height, down, width, across * rows.shape[3]), 2, 3)


class _Axis(NamedTuple):
    """Of one spatial axis."""

    input: int
    kernel: int
    stride: int
    padding: tuple[int, int]


def _fold_axis(axis: _Axis, output: int, cells: int) -> _Axis:
    """The axis whose cells are so many of these; the stride is a multiple of them."""
    if cells == 1:
        return axis
    start, _ = axis.padding
    before, size, stride = -(-start // cells), -(-axis.input // cells), axis.stride // cells
    kernel = -(-(_taps_before(start, cells) + axis.kernel) // cells)
    after = (output - 1) * stride + kernel - before - size
    return _Axis(size, kernel, stride, (before, max(after, 0)))


def _taps_before(start: int, cells: int) -> int:
    """Taps before the first, so that the first window, padded by `start`, begins at a cell."""
    return -start % cells


def _foldable(problem: Problem) -> tuple[int, int]:
    """Cells under one stride that are no more than a chunk: first those that lie in a row."""
    fold, left = [1, 1], max(capability.CHUNK // problem.channels, 1)
    for axis in (1, 0):
        if problem.kernel[axis] > 1 and problem.dilations[axis] == 1:
            fold[axis] = math.gcd(problem.strides[axis], left)
            left //= fold[axis]
    return fold[0], fold[1]


def _mergeable(problem: Problem) -> int:
    """Groups of few channels: a divisor of them all."""
    most = max(_MERGED // max(problem.channels, problem.outputs), 1)
    return max(n for n in range(1, most + 1) if problem.groups % n == 0)
