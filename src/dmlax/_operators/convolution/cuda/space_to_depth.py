"""Space-to-depth and merged groups: a convolution of few channels as one of many.

A kernel copies and multiplies many bytes as fast as few. Space-to-depth makes the pixels of a block
the channels of one pixel; the blocks divide the strides, so that every window begins at one. Merged
groups give a filter's row places for the channels of all groups. Places without a weight hold the
zero point, which adds nothing to a sum.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from dmlax._core import float_bits
from dmlax._core.byte_packing import join_bytes
from dmlax._core.prepared_weights import Prepared
from dmlax._cuda.capability import CHUNK
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.merged_groups import choose_merged_groups, merge_filter
from dmlax._operators.convolution.prepare import zero_of


@dataclass(frozen=True)
class ChannelTransform:
    """A transform to more channels: by space-to-depth or by merged groups, one of them at most."""

    source: ConvProblem
    block: tuple[int, int] = (1, 1)  # pixels along both axes that become one
    merged_groups: int = 1  # groups that become one

    @classmethod
    def of(cls, source: ConvProblem) -> "ChannelTransform":
        """The transform that was fastest on an H200."""
        if source.depthwise:
            return cls(source)
        if source.groups > 1:
            return cls(source, merged_groups=choose_merged_groups(source.plan.filter))
        return cls(source, block=_choose_block(source))

    @property
    def target(self) -> ConvProblem:
        """The transformed problem, of the same outputs.

        Blocks are written anew, with the padding: the kernel copies faster where there is none.
        """
        source, axes = self.source, self._axes()
        if self.block != (1, 1):
            axes = [axis._replace(input=axis.padded, padding=(0, 0)) for axis in axes]
        rows, columns = axes
        return replace(
            source,
            input=(rows.input, columns.input),
            kernel=(rows.kernel, columns.kernel),
            strides=(rows.stride, columns.stride),
            padding=(rows.padding, columns.padding),
            groups=source.groups // self.merged_groups,
            channels=source.channels * math.prod(self.block) * self.merged_groups,
        )

    def _axes(self) -> list["_Axis"]:
        """The target's axes, their padding apart."""
        source = self.source
        axes = map(_Axis, source.input, source.kernel, source.strides, source.padding)
        return list(map(_space_to_depth_axis, axes, source.output, self.block))

    def transform_input(self, x: Array, zero_point: Array | None) -> Array:
        """The target's input, padded with zero points. Channels are whole words.

        It consists of words, so that XLA makes it in the kernel that makes x.
        """
        if self.block == (1, 1):
            return x
        words = join_bytes(x.reshape(self.source.images, *self.source.input, -1))
        zero = jnp.uint32(0)
        if zero_point is not None:
            zero = join_bytes(jnp.full(4, zero_point.reshape(()))).reshape(())
        edges = [(0, 0, 0)]
        for axis, size, block in zip(self._axes(), self.source.input, self.block, strict=True):
            start = axis.padding[0] * block
            edges.append((start, axis.padded * block - start - size, 0))
        words = lax.pad(words, zero, [*edges, (0, 0, 0)])
        (rows, columns), (height, width) = self.block, self.target.input
        words = words.reshape(len(words), height, rows, width, columns * words.shape[-1])
        # Not transposed: XLA's transposition of words took twice as long on an H200.
        words = jnp.concatenate([words[:, :, row] for row in range(rows)], -1)
        return float_bits.bitcast(words, x.dtype).reshape(*words.shape[:-1], -1)

    def transform_filter(self, filter: Prepared) -> Prepared:
        """The target's filter. Channels are whole words."""
        if self.target.channels == self.source.channels:
            return filter
        if self.merged_groups > 1:
            return merge_filter(self.source.plan.filter, filter, self.merged_groups)
        zero = zero_of(self.source.plan.filter, filter)
        zeros = jnp.broadcast_to(zero, filter.sums.shape)
        rows = filter.packed.reshape(-1, *self.source.kernel, self.source.channels)
        rows = self._space_to_depth(rows, zeros.astype(jnp.int8)).reshape(
            filter.packed.shape[0], -1
        )
        added = rows.shape[1] - filter.packed.shape[1]
        return filter._replace(packed=rows, sums=filter.sums + added * zeros)

    def _space_to_depth(self, rows: Array, zeros: Array) -> Array:
        """(K, taps, channels) padded to whole blocks of taps, a block's taps side by side."""
        (down, across), (height, width) = self.block, self.target.kernel
        edges = [(0, 0, 0)]
        for (start, _), block, source_taps, target_taps in zip(
            self.source.padding, self.block, self.source.kernel, self.target.kernel, strict=True
        ):
            before = _taps_before(start, block)
            edges.append((before, block * target_taps - before - source_taps, 0))
        zeros = zeros.reshape(-1, 1, 1, 1)
        rows = lax.pad(rows - zeros, jnp.int8(0), [*edges, (0, 0, 0)]) + zeros
        return jnp.swapaxes(rows.reshape(-1, height, down, width, across * rows.shape[3]), 2, 3)


class _Axis(NamedTuple):
    """Sizes along one spatial axis."""

    input: int
    kernel: int
    stride: int
    padding: tuple[int, int]

    @property
    def padded(self) -> int:
        """The input with its padding."""
        return self.input + sum(self.padding)


def _space_to_depth_axis(axis: _Axis, output: int, block: int) -> _Axis:
    """The axis in blocks of so many pixels; they divide the stride."""
    if block == 1:
        return axis
    start, _ = axis.padding
    before, size, stride = -(-start // block), -(-axis.input // block), axis.stride // block
    kernel = -(-(_taps_before(start, block) + axis.kernel) // block)
    after = (output - 1) * stride + kernel - before - size
    return _Axis(size, kernel, stride, (before, max(after, 0)))


def _taps_before(start: int, block: int) -> int:
    """Taps before the first, so that the first window, padded by `start`, begins at a block."""
    return -start % block


def _choose_block(problem: ConvProblem) -> tuple[int, int]:
    """Pixels under one stride that make a chunk at most; those of a row are preferred."""
    block, left = [1, 1], max(CHUNK // problem.channels, 1)
    for axis in (1, 0):
        if problem.kernel[axis] > 1 and problem.dilations[axis] == 1:
            block[axis] = math.gcd(problem.strides[axis], left)
            left //= block[axis]
    return block[0], block[1]
