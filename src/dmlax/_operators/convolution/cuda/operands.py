"""Operands of the Hopper kernels of convolutions: windows of the input, channels' constants."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import cp_async, gemm, ir, tuning
from dmlax._cuda import launch as cuda_launch
from dmlax._cuda.block import Block
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Memory, Pointer, Value, constant, select
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.pixels import split_pixel
from dmlax._cuda.product_types import Addend
from dmlax._cuda.tile import Schedule, Tile
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.plan import Operands

_SIDES = {  # the sides of a matrix product, by a convolution's names
    "filter": "right",
    "input_zero_point": "left_zero_point",
    "filter_zero_point": "right_zero_point",
    "input_scale": "left_scale",
    "filter_scale": "right_scale",
}


def launch(
    name: str,
    body: Callable[[Memory], None],
    problem: ConvProblem,
    operands: Operands,
    sums: Array,
    addend: Addend | None,
    *,
    channels: int,
    blocks: int,
    warpgroups: int,
    shared_words: int,
    scratch_words: int = 0,
) -> Array:
    """Runs a kernel on the operands that are not None, and the filter's sums: (pixels, channels).

    Its `scratch` is global memory that no other operand uses.
    """
    sides = {_SIDES.get(name, name): x for name, x in operands._asdict().items()}
    arrays = sides | {"sums": sums} | ({} if addend is None else addend._asdict())
    shape = problem.output_pixels, channels
    outputs = {"output": jax.ShapeDtypeStruct(shape, problem.types.written)}
    if scratch_words:
        outputs["scratch"] = jax.ShapeDtypeStruct((scratch_words,), jnp.uint32)
    output, *_ = cuda_launch.launch(
        name,
        body,
        {name: x.reshape(-1) for name, x in arrays.items() if x is not None},
        outputs,
        blocks=blocks,
        warpgroups=warpgroups,
        shared_words=shared_words,
    )
    return output


def split_window(problem: ConvProblem, pixel: Value) -> tuple[Value, Value, Value]:
    """The image of an output pixel of all images, and its window's first row and column."""
    image, y, x = split_pixel(pixel, *problem.output)
    (down, right), (top, left) = problem.strides, problem.padding
    return image, y * down - top[0], x * right - left[0]


class Window(NamedTuple):
    """A window of the input."""

    start: Value  # its first byte, from the input's; it may lie outside
    inside: Value  # bits of the rows of taps, then of the columns, that meet the input


class WindowLoader:
    """The loader of windows, the rows of the product's left matrix."""

    def __init__(
        self,
        problem: ConvProblem,
        block: Block,
        copies: gemm.ThreadCopies,
        memory: Memory,
        parameters: Parameters,
    ) -> None:
        self.problem, self.tile, self.group = problem, block.tile, block.group
        self.copies, self.input, self.spans = copies, memory["input"], block.span_offsets
        self.zero_points = None
        if "scratch" in memory:
            word = parameters.left_zero_points()
            self.zero_points = self._write_zero_points(memory["scratch"], word)

    def _write_zero_points(self, scratch: Pointer, word: Value) -> Value:
        """The address of a chunk of zero points, which the thread copies where no input is.

        A chunk for all threads, or for a block's, would be read one thread after another. Every
        span has a chunk.
        """
        start = (ir.block() * self.tile.threads + ir.thread()) * CHUNK
        for _, offset in self.spans:
            scratch.store(start + offset, *[word] * (CHUNK // 4))
        ir.fence()
        return scratch.address(start)

    def locate(self, row: Value) -> Window:
        """The window of an output pixel.

        After the last pixel come the first ones: the last again would be read one thread after
        another.
        """
        problem = self.problem
        height, width = problem.input
        pixel = row - row // problem.output_pixels * problem.output_pixels
        size = problem.pixel_bytes
        group = self.group * problem.channels
        if problem.pointwise:
            return Window(self._shorten(pixel.extend() * size + group.extend()), constant(0))
        image, top, left = split_window(problem, pixel)
        offset = (top * width + left) * size + group
        start = image.extend() * (height * width * size) + offset.extend_signed()
        if not problem.padded:
            return Window(self._shorten(start), constant(0))
        bits = [
            (first + tap * problem.dilations[axis] < problem.input[axis]).to_word()
            for axis, first in enumerate((top, left))
            for tap in range(problem.kernel[axis])
        ]
        start = self._shorten(start)
        shifted = [bit << tap for tap, bit in enumerate(bits)]
        return Window(start, functools.reduce(operator.add, shifted))

    def _shorten(self, offset: Value) -> Value:
        """An offset of 32 bits if they suffice: blocks on a multiprocessor share its registers."""
        return offset.to_word() if self.problem.input_bytes < 2**31 else offset

    def copy(self, rows: Sequence[Window], chunk: gemm.Chunk) -> None:
        """Begins to copy a chunk of windows, as many bytes at once as are contiguous."""
        step, within, to = chunk
        for part in range(0, CHUNK, self.problem.copy_bytes):
            if self.problem.channels % self.tile.step_depth == 0:  # all spans are of one tap
                self._copy_part(rows, gemm.Chunk(step, within + part, to + part), self.spans)
                continue
            for at, depth in self.spans:
                this = gemm.Chunk(step + depth, within + part, to + (at + part))
                self._copy_part(rows, this, self.spans[:1])

    def _copy_part(
        self, windows: Sequence[Window], chunk: gemm.Chunk, spans: Sequence[tuple[int, int]]
    ) -> None:
        """Begins to copy contiguous bytes of one tap of windows.

        Zero points stand beyond the input's edges. Bytes after the last tap meet zeros of the
        filter, and count where windows are summed.
        """
        problem, cached = self.problem, _shares_cache_lines(self.problem, self.tile)
        tap = self._tap(chunk)
        for i, window in enumerate(windows):
            offset = tap.offset if window.start.bits == 32 else tap.offset.extend()
            source, count = self.input.address_signed(window.start + offset), None
            if _leaves_input(problem, self.tile):
                wanted = constant(1, 1)
                if problem.padded:
                    wanted = (window.inside & tap.bits) == tap.bits
                if _sums_beyond_window(problem, self.tile):
                    wanted = wanted & tap.exists
                source, count = self.source_where(wanted, source, problem.copy_bytes)
            row = i * self.copies.rows_at_once
            # A tile may be the only one, and have fewer pixels than rows.
            with self.copies.when_within(row, min(self.tile.rows, problem.output_pixels)):
                to = chunk.to + row * self.tile.depth
                for offsets in spans:
                    cp_async.copy(
                        *(to, source, problem.copy_bytes, count), cached=cached, offsets=offsets
                    )

    def source_where(self, wanted: Value, source: Value, size: int) -> tuple[Value, Value | None]:
        """The source of a copy, and how many of its bytes are read, None for all.

        An unwanted source becomes zero points, or no byte: zeros are stored then.
        """
        if self.zero_points is not None:
            return select(wanted, source, self.zero_points), None
        return select(wanted, source, self.input.address()), select(wanted, constant(size), 0)

    def _tap(self, chunk: gemm.Chunk) -> "_Tap":
        """The tap at a chunk."""
        problem, depth = self.problem, chunk.depth
        # All threads have one tap in the whole step.
        same_tap = problem.channels % self.tile.depth == 0
        tap = (chunk.step_depth if same_tap else depth) // problem.channels
        channel = depth - tap * problem.channels
        exists = tap < problem.taps
        tap = ir.minimum(tap, problem.taps - 1)
        y, x = divmod(tap, problem.kernel[1])
        down, right = y * problem.dilations[0], x * problem.dilations[1]
        offset = (down * problem.input[1] + right) * problem.pixel_bytes + channel
        bits = (constant(1) << y) | (constant(1) << (x + problem.kernel[0]))
        return _Tap(offset, bits, exists)


class _Tap(NamedTuple):
    """A tap of any window."""

    offset: Value  # the distance from the window's first byte
    bits: Value  # the bits of the tap's row and column in a window's `inside`
    exists: Value


def scratch_words(problem: ConvProblem, schedule: Schedule) -> int:
    """Words of global memory for zero points: a chunk per thread, and per span after its first.

    None where they are 0, which copies store by themselves.
    """
    has_zero_point = problem.plan.operands.input_zero_point is not None
    if not (has_zero_point and _leaves_input(problem, schedule.tile)):
        return 0
    others = (schedule.tile.spans - 1) * schedule.tile.depth // 4
    return CHUNK // 4 * schedule.tile.threads * schedule.blocks + others


def _leaves_input(problem: ConvProblem, tile: Tile) -> bool:
    """True if zero points stand where no input is."""
    return problem.padded or _sums_beyond_window(problem, tile)


def _sums_beyond_window(problem: ConvProblem, tile: Tile) -> bool:
    """True if windows are summed beyond the last tap, where the filter is zero."""
    return problem.sums_windows and problem.window_bytes % tile.step_depth != 0


def _shares_cache_lines(problem: ConvProblem, tile: Tile) -> bool:
    """True if windows are copied through the L1 cache, as several share its lines."""
    narrow = problem.pixel_bytes <= tuning.MOST_CACHED_PIXEL_BYTES
    return narrow and tile.columns <= tuning.MOST_CACHED_COLUMNS
