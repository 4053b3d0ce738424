"""The depthwise convolution kernel for Hopper GPUs: four channels a thread, pixel after pixel.

A tap of four channels is a word. Four taps' words are transposed, so that one instruction (`dp4a`)
multiplies and sums four taps of a channel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
from jax import Array

from dmlax._core import windows
from dmlax._cuda import ir, tuning
from dmlax._cuda.column_table import Column, ColumnTable
from dmlax._cuda.ir import Memory, Value, constant
from dmlax._cuda.launch import ThreadBlock
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.requantize import Factor, Ratio
from dmlax._operators.convolution.cuda.operands import launch, split_window
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.plan import Operands

_QUAD = 4  # channels of a thread, and taps that are multiplied at once


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """The outputs that a thread block makes at once: of some pixels, `quads` of channels."""

    quads: int

    @property
    def pixels(self) -> int:
        """Output pixels."""
        return self.threads // self.quads


@dataclass(frozen=True)
class _Schedule:
    """The tiles of a convolution: a block makes tile after tile of the same channels."""

    problem: ConvProblem
    tile: Tile
    multiprocessors: int

    @property
    def quads(self) -> int:
        """Quads of all channels."""
        return self.problem.pixel_bytes // _QUAD

    @property
    def columns(self) -> int:
        """Tiles along the channels."""
        return -(-self.quads // self.tile.quads)

    @property
    def rows(self) -> int:
        """Tiles along the pixels that blocks begin with."""
        running = max(1, tuning.DEPTHWISE_BLOCKS * self.multiprocessors // self.columns)
        return min(-(-self.problem.output_pixels // self.tile.pixels), running)

    @property
    def pixels_at_once(self) -> int:
        """Pixels from a thread's one to its next."""
        return self.rows * self.tile.pixels


def choose_tile(problem: ConvProblem) -> Tile:
    """The widest tile with the fewest idle threads: a warp reads many bytes side by side."""
    quads = problem.pixel_bytes // _QUAD
    most = max(1, quads // tuning.FEWEST_QUADS)
    columns = range(-(-quads // tuning.MOST_QUADS), most + 1)
    tiles = (Tile(tuning.DEPTHWISE_WARPGROUPS, -(-quads // count)) for count in columns)
    return max(tiles, key=partial(_busy, quads))


def _busy(quads: int, tile: Tile) -> float:
    """The share of the threads that have channels."""
    columns = -(-quads // tile.quads)
    return tile.pixels * quads / (columns * tile.threads)


def convolve(problem: ConvProblem, multiprocessors: int, operands: Operands, sums: Array) -> Array:
    """(output pixels, K), of (N, H, W, K), with K in whole words, and (K, taps).

    The filter has as many rows as the input has channels.
    """
    tile = choose_tile(problem)
    schedule = _Schedule(problem, tile, multiprocessors)

    return launch(
        "dmlax_depthwise_convolution",
        lambda memory: _Block(schedule, memory).run(),
        *(problem, operands, sums, None),
        channels=problem.pixel_bytes,
        blocks=schedule.rows * schedule.columns,
        warpgroups=tile.warpgroups,
        shared_words=ColumnTable.bytes_of(_QUAD * tile.quads) // 4,
    )


def _extract_bytes(words: Sequence[Value], first: int, count: int) -> Value:
    """Extracts up to four bytes, from the `first` of the words on; zeros follow."""
    at, skipped = divmod(first, 4)
    word = words[at] >> 8 * skipped if skipped else words[at]
    if skipped + count > 4:
        word = word | (words[at + 1] << 8 * (4 - skipped))
    return word & ((1 << 8 * count) - 1) if count < 4 else word


class _Block:
    """The program of one block's threads."""

    def __init__(self, schedule: _Schedule, memory: Memory) -> None:
        self.schedule, self.problem, self.tile = schedule, schedule.problem, schedule.tile
        self.memory, self.output = memory, memory["output"]
        self.table = ColumnTable(memory["shared"].shared_address(), _QUAD * self.tile.quads)
        row = ir.block() // schedule.columns
        self.first_quad = (ir.block() - row * schedule.columns) * self.tile.quads
        pixel = ir.thread() // self.tile.quads
        self.column = ir.thread() - pixel * self.tile.quads
        self.has_pixel = pixel < self.tile.pixels
        self.first_pixel = row * self.tile.pixels + pixel
        self.parameters = Parameters(self.problem.types, memory, self.problem.taps)
        self.requantizer = self.parameters.requantizer()

    def run(self) -> None:
        """Makes the outputs of one pixel after another, of the same four channels."""
        outputs, quads = self.problem.plan.filter.outputs, self.schedule.quads
        first_channel = self.first_quad * _QUAD

        def column_at(place: Value) -> Column:
            channel = ir.minimum(first_channel + place, outputs - 1)
            return self.parameters.load_column(channel)()

        quad = self.first_quad + self.column
        is_busy = self.has_pixel & (quad < quads)
        pixels = ir.select(is_busy, constant(self.problem.output_pixels), 0)
        quad = ir.minimum(quad, quads - 1)
        filter = self._load_filter(quad)
        for place in self.table.places(self.tile.threads):
            self.table.write_at(place, partial(column_at, place))
        ir.barrier()
        offsets, zero_points, factors = self._load_constants()

        def step(pixel: Value) -> Value:
            sums = self._sum_window(pixel, quad, filter, offsets, zero_points)
            self._store(pixel, quad, sums, factors)
            return pixel + self.schedule.pixels_at_once

        ir.while_loop(self.first_pixel, lambda pixel: pixel < pixels, step)

    def _load_constants(self) -> tuple[list[Value], list[Value], list[Factor]]:
        """Loads the offsets, the zero points and the factors, if any, of the four channels."""
        first, requantizer = self.column * _QUAD, self.requantizer
        offsets = self.table.load_four("offset", first)
        zero_points = self.table.load_four("zero_point", first)
        if requantizer is None:
            return offsets, zero_points, []
        return offsets, zero_points, self.table.load_factors(first, requantizer.arithmetic)

    def _load_filter(self, quad: Value) -> list[list[Value]]:
        """Loads the taps of four channels, four to a word, zeros after the last."""
        taps, filter = self.problem.taps, self.memory["right"]
        words = [filter.load((quad * taps + i).extend() * 4) for i in range(taps)]
        return [
            [
                _extract_bytes(words, channel * taps + tap, min(_QUAD, taps - tap))
                for tap in range(0, taps, _QUAD)
            ]
            for channel in range(_QUAD)
        ]

    def _sum_window(
        self,
        pixel: Value,
        quad: Value,
        filter: Sequence[Sequence[Value]],
        offsets: Sequence[Value],
        zero_points: Sequence[Value],
    ) -> list[Value]:
        """Four channels' sums of a window."""
        unsigned = self.problem.plan.input.dtype == jnp.uint8
        sums, windows = list(offsets), [constant(0)] * _QUAD
        words = self._load_window(pixel, quad)
        words += [constant(0)] * (-len(words) % _QUAD)
        for group in range(len(words) // _QUAD):
            taps = ir.transpose_bytes(words[_QUAD * group :][:_QUAD])
            for i, four in enumerate(taps):
                sums[i] = ir.dot_bytes(sums[i], four, filter[i][group], unsigned=unsigned)
                if self.problem.sums_windows:
                    ones = constant(0x01010101)
                    windows[i] = ir.dot_bytes(windows[i], four, ones, unsigned=unsigned)
        if not self.problem.sums_windows:
            return sums
        return [
            sum - zero_point * window
            for sum, zero_point, window in zip(sums, zero_points, windows, strict=True)
        ]

    def _load_window(self, pixel: Value, quad: Value) -> list[Value]:
        """Loads four channels of every tap; zero points where no input is."""
        problem = self.problem
        height, width = problem.input
        size = problem.pixel_bytes
        image, top, left = split_window(problem, pixel)
        offset = (top * width + left) * size + quad * _QUAD
        start = image.extend() * (height * width * size) + offset.extend_signed()
        address = self.memory["input"].address(start)
        zero_points = self.parameters.left_zero_points()
        down, right = problem.dilations
        rows, columns = (
            [first + tap * dilation < limit for tap in range(size)]
            for first, dilation, limit, size in zip(
                (top, left), problem.dilations, problem.input, problem.kernel, strict=True
            )
        )
        words = []
        for i, j in windows.taps(problem.kernel):
            tap = address + (i * down * width + j * right) * size
            if problem.padded:
                words.append(ir.load_read_only_where(rows[i] & columns[j], tap, zero_points))
            else:
                words.append(ir.load_read_only(tap))
        return words

    def _store(
        self, pixel: Value, quad: Value, sums: Sequence[Value], factors: Sequence[Factor]
    ) -> None:
        place = pixel.extend() * self.schedule.quads + quad.extend()
        if self.requantizer is None:
            self.output.store(place * 16, *sums)
            return

        def load_ratio(i: Value) -> Ratio:
            return self.table.load_ratio(self.column * _QUAD + i)

        self.output.store(place * 4, *self.requantizer.quantize(sums, factors, load_ratio))
