"""The depthwise convolution kernel for Hopper GPUs: four channels a thread, cell after cell.

A tap of four channels is a word. Four taps' words are transposed, so that each channel's four are
multiplied and summed at once (`dp4a`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from dmlax._convolution.cuda.operands import Column, ColumnTable, Parameters, launch
from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.plan import Convolution
from dmlax._cuda import ir
from dmlax._cuda.ir import Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock
from dmlax._cuda.requantize import Scales

_TOGETHER = 4  # channels of a thread, and taps that are multiplied at once


@dataclass(frozen=True)
class Split(ThreadBlock):
    """How the work is split.

    `warpgroups` a block, which takes `quads` of channels side by side, and `blocks` on a
    multiprocessor.
    """

    quads: int
    blocks: int

    @property
    def cells(self) -> int:
        """Cells that a block takes at once."""
        return self.threads // self.quads


def split_of(problem: ConvProblem) -> Split:
    """What was fastest on an H200: a warp reads 128 bytes side by side."""
    quads = _quads(problem)
    return Split(2, min(32, 1 << (quads - 1).bit_length()), 4)


def convolve(
    problem: ConvProblem, split: Split, multiprocessors: int, operands: Convolution, sums: Array
) -> Array:
    """The output, (cells, K); the input is (N, H, W, K), K in whole words, the filter (K, taps).

    The filter has as many rows as the input has channels.
    """
    columns = -(-_quads(problem) // split.quads)
    most = max(1, split.blocks * multiprocessors // columns)
    rows = min(-(-problem.output_pixels // split.cells), most)

    def body(output: Pointer, shared: Pointer, **memory: Pointer) -> None:
        _Block(problem, split, rows, memory, output, shared).run()

    return launch(
        "dmlax_depthwise_convolution",
        body,
        *(problem, operands, sums),
        channels=problem.pixel_bytes,
        blocks=rows * columns,
        warpgroups=split.warpgroups,
        shared_words=ColumnTable.bytes_of(_TOGETHER * split.quads) // 4,
    )


def _quads(problem: ConvProblem) -> int:
    return problem.pixel_bytes // _TOGETHER


def _bytes_of(words: Sequence[Value], first: int, count: int) -> Value:
    """Up to four bytes, from the `first` of the words on; zeros after them."""
    at, skipped = divmod(first, 4)
    found = words[at] >> 8 * skipped if skipped else words[at]
    if skipped + count > 4:
        found = found | (words[at + 1] << 8 * (4 - skipped))
    return found & ((1 << 8 * count) - 1) if count < 4 else found


class _Block:
    """What one block's threads do."""

    def __init__(
        self,
        problem: ConvProblem,
        split: Split,
        rows: int,
        memory: dict[str, Pointer],
        output: Pointer,
        shared: Pointer,
    ) -> None:
        self.problem, self.split, self.memory = problem, split, memory
        self.output = output
        self.table = ColumnTable(shared.shared_address(), _TOGETHER * split.quads)
        self.quads = _quads(problem)
        columns = -(-self.quads // split.quads)
        row = ir.block() // columns
        self.first_quad = (ir.block() - row * columns) * split.quads
        self.column = ir.thread() & (split.quads - 1)
        self.first_cell = row * split.cells + ir.thread() // split.quads
        self.cells_at_once = rows * split.cells
        self.parameters = Parameters(problem, memory)
        self.requantizer = self.parameters.requantizer()

    def run(self) -> None:
        """One cell after another, of the same four channels."""
        outputs = self.problem.plan.filter.outputs
        first_channel = self.first_quad * _TOGETHER

        def constants(column: Value) -> Column:
            channel = ir.minimum(first_channel + column, outputs - 1)
            return self.parameters.column(channel, self.problem.taps)

        quad = self.first_quad + self.column
        cells = ir.select(quad < self.quads, constant(self.problem.output_pixels), 0)
        quad = ir.minimum(quad, self.quads - 1)
        filter = self._filter(quad)
        self.table.set(self.split.threads, constants)
        ir.barrier()
        columns = {
            name: self.table.four(name, self.column * _TOGETHER)
            for name in ("offset", "zero_point", "multiplier")
        }

        def step(cell: Value) -> list[Value]:
            sums = self._sums(cell, quad, filter, columns)
            self._store(cell, quad, sums, columns["multiplier"])
            return [cell + self.cells_at_once]

        ir.while_loop([self.first_cell], lambda cell: cell < cells, step)

    def _filter(self, quad: Value) -> list[list[Value]]:
        """Each channel's taps, four to a word, zeros after the last."""
        taps, filter = self.problem.taps, self.memory["filter"]
        words = [filter.load((quad * taps + i).extend() * 4) for i in range(taps)]
        return [
            [
                _bytes_of(words, channel * taps + tap, min(_TOGETHER, taps - tap))
                for tap in range(0, taps, _TOGETHER)
            ]
            for channel in range(_TOGETHER)
        ]

    def _sums(
        self,
        cell: Value,
        quad: Value,
        filter: Sequence[Sequence[Value]],
        columns: dict[str, list[Value]],
    ) -> list[Value]:
        """Four channels' sums of a window."""
        unsigned = self.problem.plan.input.dtype == jnp.uint8
        sums, windows = list(columns["offset"]), [constant(0)] * _TOGETHER
        words = self._window(cell, quad)
        words += [constant(0)] * (-len(words) % _TOGETHER)
        for group in range(len(words) // _TOGETHER):
            taps = ir.transpose_bytes(words[_TOGETHER * group :][:_TOGETHER])
            for i, bytes_of in enumerate(taps):
                sums[i] = ir.dot_bytes(sums[i], bytes_of, filter[i][group], unsigned=unsigned)
                if self.problem.sums_windows:
                    ones = constant(0x01010101)
                    windows[i] = ir.dot_bytes(windows[i], bytes_of, ones, unsigned=unsigned)
        if not self.problem.sums_windows:
            return sums
        return [
            sum - zero_point * window
            for sum, zero_point, window in zip(sums, columns["zero_point"], windows, strict=True)
        ]

    def _window(self, cell: Value, quad: Value) -> list[Value]:
        """Four channels of each tap; zero points where the input ends."""
        problem = self.problem
        height, width = problem.input
        pixel = problem.pixel_bytes
        image, *corner = problem.window(cell)
        offset = (corner[0] * width + corner[1]) * pixel + quad * _TOGETHER
        start = image.extend() * (height * width * pixel) + offset.extend_signed()
        address = self.memory["input"].address(start)
        fill = self.parameters.input_zero_points()
        met = [
            [
                corner[axis] + tap * problem.dilations[axis] < problem.input[axis]
                for tap in range(problem.kernel[axis])
            ]
            for axis in range(2)
        ]
        words = []
        for i in range(problem.kernel[0]):
            for j in range(problem.kernel[1]):
                along = (i * problem.dilations[0] * width + j * problem.dilations[1]) * pixel
                if problem.padded:
                    inside = met[0][i] & met[1][j]
                    words.append(ir.load_read_only_where(inside, address + along, fill))
                else:
                    words.append(ir.load_read_only(address + along))
        return words

    def _store(
        self, cell: Value, quad: Value, sums: Sequence[Value], multipliers: Sequence[Value]
    ) -> None:
        place = cell.extend() * self.quads + quad.extend()
        if self.requantizer is None:
            self.output.store(place * 16, *sums)
            return

        def scales_of(i: Value) -> Scales:
            return self.table.scales(self.column * _TOGETHER + i)

        made = self.requantizer.quantize(sums, multipliers, scales_of)
        self.output.store(place * 4, ir.pack_bytes(made))
