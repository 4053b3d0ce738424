"""The convolution kernel for Hopper GPUs: a matrix product whose left rows are gathered windows.

A tile of the output is some cells, of all images one after another, times some output channels. A
block makes one tile after another of the same channels. Its threads copy windows and the filter's
rows into shared memory, a step of the sum at a time and some steps ahead, into the next tile too;
its warpgroups multiply them as bytes (`wgmma`) into int32 registers, then requantize, round and
store. A sum never reaches memory before it is an output.
"""

import functools
import math
import operator
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import jax.numpy as jnp
from jax import Array

from dmlax._convolution.cuda.operands import ColumnTable, Parameters, launch
from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.plan import Convolution
from dmlax._cuda import capability, cp_async, ir, wgmma
from dmlax._cuda.ir import Pointer, Value, constant, select
from dmlax._cuda.launch import ThreadBlock
from dmlax._cuda.requantize import Scales


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """What a block does.

    `warpgroups` of `products` times 64 cells each, `channels`, `step` bytes of the sum at a time,
    and `stages` of them in shared memory; `blocks` of them on a multiprocessor.
    """

    products: int
    channels: int
    step: int
    stages: int
    blocks: int

    @property
    def cells(self) -> int:
        """Cells of a tile."""
        return self.warpgroups * self.products * wgmma.ROWS

    @property
    def stage_bytes(self) -> int:
        """Of the windows and the filter's rows of one step."""
        return (self.cells + self.channels) * self.step


def _columns(problem: ConvProblem, tile: Tile) -> int:
    """Tiles along a group's output channels."""
    return -(-problem.output_channels // tile.channels)


def _steps(problem: ConvProblem, tile: Tile) -> int:
    """Steps of a sum."""
    return -(-problem.depth // tile.step)


def _fills(problem: ConvProblem, tile: Tile) -> bool:
    """Whether zero points stand where no input is."""
    return problem.padded or _sums_beyond(problem, tile)


def _sums_beyond(problem: ConvProblem, tile: Tile) -> bool:
    """Whether windows are summed beyond the last tap; the filter is zero there."""
    return problem.sums_windows and problem.window_bytes % tile.step != 0


def _shares_lines(problem: ConvProblem, tile: Tile) -> bool:
    """Whether windows are copied through the first cache: others have the same lines of it.

    Wider cells and larger tiles, which leave it little room, were faster past it.
    """
    return problem.pixel_bytes <= 32 and tile.channels <= 64


def _rows_at_once(problem: ConvProblem, tile: Tile, multiprocessors: int) -> int:
    """Tiles along the cells that blocks begin with: all, where these are few and long."""
    rows, columns = (
        -(-problem.output_pixels // tile.cells),
        _columns(problem, tile) * problem.groups,
    )
    running = tile.blocks * multiprocessors
    if rows * columns <= running or (rows * columns < 2 * running and _steps(problem, tile) > 8):
        return rows
    return max(1, running // columns)


def tile_of(problem: ConvProblem, multiprocessors: int) -> Tile:
    """What was fastest on an H200: long sums want tiles that share, short ones many outputs."""
    step = next(size for size in (128, 64, 32) if size <= max(problem.depth, 32))
    channels = next((count for count in (16, 32, 64) if problem.output_channels <= count), 128)
    if channels == 128 and step == 128:
        tile = Tile(2, 1, 128, step, 3, 2)
        tiles = _tiles(problem, tile)
        if multiprocessors <= tiles < 4 * multiprocessors and _steps(problem, tile) < 10:
            tile = Tile(1, 1, 128, step, 2, 4)
    else:
        tile = Tile(2, 2, min(channels, 64), min(step, 64), 3, 2)
        if _steps(problem, tile) == 1 and _tiles(problem, tile) < 2 * tile.blocks * multiprocessors:
            tile = replace(tile, products=1, blocks=3)
    if 2 * _tiles(problem, tile) <= multiprocessors:
        return _small_tile(problem, Tile(1, 1, channels, step, 4, 2), multiprocessors)
    return tile


def _small_tile(problem: ConvProblem, tile: Tile, multiprocessors: int) -> Tile:
    """Of fewer channels, while there are no more tiles than multiprocessors."""
    narrower = replace(tile, channels=tile.channels // 2)
    if tile.channels <= 32 or _tiles(problem, narrower) > multiprocessors:
        return tile
    return _small_tile(problem, narrower, multiprocessors)


def _tiles(problem: ConvProblem, tile: Tile) -> int:
    return -(-problem.output_pixels // tile.cells) * _columns(problem, tile) * problem.groups


def convolve(
    problem: ConvProblem, tile: Tile, multiprocessors: int, operands: Convolution, sums: Array
) -> Array:
    """The output, (cells, groups * stored), of (N, H, W, groups * channels) and (K, depth)."""
    rows = _rows_at_once(problem, tile, multiprocessors)
    blocks = rows * _columns(problem, tile) * problem.groups

    def body(output: Pointer, shared: Pointer, **memory: Pointer) -> None:
        _Block(problem, tile, rows, memory, output, _Shared(tile, shared)).run()

    return launch(
        "dmlax_convolution",
        body,
        *(problem, operands, sums),
        channels=problem.groups * problem.stored_channels,
        blocks=blocks,
        warpgroups=tile.warpgroups,
        shared_words=_Shared.bytes_of(tile) // 4,
        scratch_words=capability.CHUNK // 4 * tile.threads * blocks if _fills(problem, tile) else 0,
    )


class _Shared:
    """A block's shared memory, as 32-bit addresses: stages, columns' constants, rows of ones."""

    def __init__(self, tile: Tile, pointer: Pointer) -> None:
        self.stages = ir.round_up(pointer.shared_address(), wgmma.ALIGNMENT)
        self.ones = self.stages + self._stages_bytes(tile)
        self.columns = ColumnTable(self.ones + 8 * tile.step, tile.channels)

    @classmethod
    def bytes_of(cls, tile: Tile) -> int:
        """All of it, and what may be lost to alignment."""
        columns = ColumnTable.bytes_of(tile.channels)
        return wgmma.ALIGNMENT + cls._stages_bytes(tile) + 8 * tile.step + columns

    @classmethod
    def _stages_bytes(cls, tile: Tile) -> int:
        aligned = wgmma.ALIGNMENT
        return -(-tile.stages * tile.stage_bytes // aligned) * aligned


class _Block:
    """What one block's threads do."""

    def __init__(
        self,
        problem: ConvProblem,
        tile: Tile,
        rows: int,
        memory: dict[str, Pointer],
        output: Pointer,
        shared: _Shared,
    ) -> None:
        self.problem, self.tile, self.memory = problem, tile, memory
        self.output, self.shared = output, shared
        columns = _columns(problem, tile)
        rest = ir.block() // columns
        self.first_channel = (ir.block() - rest * columns) * tile.channels
        row = rest // problem.groups
        self.group = rest - row * problem.groups
        self.first_cell, self.cells_at_once = row * tile.cells, rows * tile.cells
        self.parameters = Parameters(problem, memory)
        self.requantizer = self.parameters.requantizer()

    def run(self) -> None:
        """Tile after tile, from windows to outputs."""
        tile, zero = self.tile, constant(0)
        gather = _Copies(self)
        ahead = ir.while_loop(
            [zero, *gather.start()],
            lambda i, *_: i < tile.stages - 1,
            lambda i, *ahead: [i + 1, *gather.begin(ahead)],
        )[1:]
        self._set_columns()
        ir.barrier()
        rows = ir.broadcast_lane(ir.warpgroup(), 0) * (tile.products * wgmma.ROWS)
        matrices = [
            wgmma.descriptor(start, tile.step)
            for start in (
                self.shared.stages + rows * tile.step,
                self.shared.stages + tile.cells * tile.step,
                self.shared.ones,
            )
        ]
        window_sums = [zero] * (4 * tile.products if self.problem.sums_windows else 0)
        steps = _steps(self.problem, tile)

        def step(step: Value, stage: Value, *rest: Value) -> list[Value]:
            wgmma.wait_for_copies(tile.stages - 2)
            ir.barrier()
            asked = self._multiply(matrices, stage, rest[gather.count :])
            ahead = gather.begin(rest[: gather.count])
            return [step + 1, self.next_stage(stage), *ahead, *wgmma.wait(asked)]

        def make_tile(first_cell: Value, stage: Value, *ahead: Value) -> list[Value]:
            sums = [*self._offsets() * tile.products, *window_sums]
            _, stage, *rest = ir.while_loop(
                [zero, stage, *ahead, *sums], lambda step, *_: step < steps, step
            )
            self._store(first_cell, rest[gather.count :])
            return [first_cell + self.cells_at_once, stage, *rest[: gather.count]]

        start = [self.first_cell, zero, *ahead]
        ir.while_loop(start, lambda cell, *_: cell < self.problem.output_pixels, make_tile)
        wgmma.wait_for_copies(0)

    def next_stage(self, stage: Value) -> Value:
        """The stage after one, as bytes from the first."""
        last = (self.tile.stages - 1) * self.tile.stage_bytes
        return select(stage == last, constant(0), stage + self.tile.stage_bytes)

    @property
    def _registers(self) -> int:
        """Of one product's sums."""
        return self.tile.channels // 2

    # -----------------------------------------------------------------------------------
    # Products

    def _multiply(
        self, matrices: Sequence[Value], stage: Value, sums: Sequence[Value]
    ) -> list[Value]:
        """The step's products, added to the sums."""
        tile, count = self.tile, self._registers
        left, right, ones = matrices
        left, right = (matrix + (stage >> 4).extend() for matrix in (left, right))
        products = []
        for i in range(tile.products):
            for depth in range(0, tile.step, wgmma.DEPTH):
                a = wgmma.advance(left, i * wgmma.ROWS * tile.step + depth)
                b = wgmma.advance(right, depth)
                products.append(wgmma.Product(i * count, a, b, tile.channels))
                if self.problem.sums_windows:
                    b, first = wgmma.advance(ones, depth), tile.products * count + 4 * i
                    products.append(wgmma.Product(first, a, b, 8))
        unsigned = self.problem.plan.input.dtype == jnp.uint8
        return wgmma.multiply_async(sums, products, unsigned=unsigned)

    def _offsets(self) -> list[Value]:
        """What a product's sums start from: a thread's two cells have the same columns."""
        run, found = _run(self.tile), []
        for start in range(0, self.tile.channels, 4 * run):
            for part in range(0, run, 4):
                offsets = self.shared.columns.four("offset", _place_of(start, part))
                for two in (offsets[:2], offsets[2:]):
                    found += [*two, *two]
        return found

    # -----------------------------------------------------------------------------------
    # Constants

    def _set_columns(self) -> None:
        """Each output channel's constants, and the ones that sum windows."""
        tile = self.tile
        summed = _steps(self.problem, tile) * tile.step  # after the last tap, zero points
        self.shared.columns.set(
            tile.threads,
            lambda place: self.parameters.column(self.channel(_column_at(place, tile)), summed),
        )
        if self.problem.sums_windows:
            for first in range(0, 2 * tile.step, tile.threads):
                word = ir.thread() + first
                with ir.when(word < 2 * tile.step):
                    ir.store_shared(self.shared.ones + word * 4, constant(0x01010101))
            ir.ptx_effect("fence.proxy.async.shared::cta;")

    def channel(self, column: Value) -> Value:
        """The output channel of a column; columns beyond the group take its last."""
        within = ir.minimum(self.first_channel + column, self.problem.output_channels - 1)
        return self.group * self.problem.output_channels + within

    # -----------------------------------------------------------------------------------
    # Outputs

    def _store(self, first_cell: Value, sums: Sequence[Value]) -> None:
        """A thread has two cells 8 apart of every product, and in each runs of output channels."""
        tile, count, run = self.tile, self._registers, _run(self.tile)
        windows = sums[count * tile.products :]
        row = ir.warp() * 16 + (ir.lane() >> 2)
        row = row + ir.warpgroup() * ((tile.products - 1) * wgmma.ROWS)
        for start in range(0, tile.channels, 4 * run):
            first = (ir.lane() & 3) * run + start
            outputs: list[list[Value]] = [[] for _ in range(2 * tile.products)]
            for part in range(0, run, 4):
                constants = _Constants(self, _place_of(start, part))
                for i in range(tile.products):
                    at = i * count + start // 2 + 2 * part
                    mine = sums[at : at + 8]
                    both = [*mine[0:2], *mine[4:6]], [*mine[2:4], *mine[6:8]]
                    made = self._outputs(both, windows[4 * i :: 2], constants)
                    for half in range(2):
                        outputs[2 * i + half] += made[half]
            for i, values in enumerate(outputs):
                cell = row + (i >> 1) * wgmma.ROWS + 8 * (i & 1)
                self._store_run(first_cell + cell, self.first_channel + first, values)

    def _outputs(
        self,
        sums: Sequence[Sequence[Value]],
        windows: Sequence[Value],
        constants: "_Constants",
    ) -> list[list[Value]]:
        """Of both cells: four sums, or one word of four bytes."""
        totals = [*sums[0], *sums[1]]
        if self.problem.sums_windows:
            zero_points = constants.zero_points
            totals = [sum - zero_points[i % 4] * windows[i // 4] for i, sum in enumerate(totals)]
        if self.requantizer is None:
            return [totals[:4], totals[4:]]
        made = self.requantizer.quantize(totals, constants.multipliers * 2, constants.scales)
        return [[ir.pack_bytes(made[:4])], [ir.pack_bytes(made[4:])]]

    def _store_run(self, cell: Value, channel: Value, words: Sequence[Value]) -> None:
        """A cell's outputs, side by side, as many at once as the sizes allow."""
        problem = self.problem
        size = problem.plan.options.output_dtype.itemsize
        first = self.group * problem.stored_channels + channel
        start = (cell.extend() * (problem.groups * problem.stored_channels) + first.extend()) * size
        run = 4 * len(words) // size
        at_once = math.gcd(problem.stored_channels, run, 16 // size)
        for part in range(0, run, at_once):
            with ir.when(
                (cell < problem.output_pixels) & (channel + part < problem.stored_channels)
            ):
                here, offset = start + part * size, part * size
                if at_once * size < 4:
                    for i in range(at_once):
                        word = words[(offset + i) // 4] >> (offset + i) % 4 * 8
                        self.output.store_byte(here + i, word)
                else:
                    self.output.store(here, *words[offset // 4 :][: at_once * size // 4])


class _Constants:
    """Of four columns side by side, loaded once for all cells of a thread."""

    def __init__(self, block: _Block, place: Value) -> None:
        self._columns, self._place = block.shared.columns, place
        if block.problem.sums_windows:
            self.zero_points = self._columns.four("zero_point", place)
        if block.requantizer is not None:
            self.multipliers = self._columns.four("multiplier", place)

    def scales(self, output: Value) -> Scales:
        """Of an output of several cells' four."""
        return self._columns.scales(self._place + (output & 3))


def _place_of(start: int, part: int) -> Value:
    """Where the table has a thread's four columns: those of four lanes are side by side."""
    return (ir.lane() & 3) * 4 + (start + 4 * part)


def _column_at(place: Value, tile: Tile) -> Value:
    """The column at a place of the table."""
    run = _run(tile)
    within = place & (4 * run - 1)
    return (place - within) + ((within >> 2) & 3) * run + (within >> 4) * 4 + (within & 3)


def _run(tile: Tile) -> int:
    """Output channels side by side that a thread has: the filter's rows are placed for it."""
    return min(tile.channels, 64) // 4


def _column_distance(rows: int, tile: Tile) -> int:
    """From a row's column to that of a row further on, by as many rows as are copied at once."""
    run = _run(tile)
    return rows // (4 * run) * (4 * run) + rows % (4 * run) // 8 * 2


def _column_of(row: Value, tile: Tile) -> Value:
    """The column whose filter is at a row: products give a thread two columns in every eight."""
    run = _run(tile)
    within = row & (4 * run - 1)
    return (row - within) + ((within >> 1) & 3) * run + (within >> 3) * 2 + (within & 1)


class _Copies:
    """What a thread copies of every step: chunks of some windows and of some filter rows."""

    def __init__(self, block: _Block) -> None:
        self.block, self.problem, self.tile = block, block.problem, block.tile
        across = self.tile.step // capability.CHUNK
        self.row = ir.thread() // across
        self.chunk = ir.thread() - self.row * across
        self.rows_at_once = self.tile.threads // across
        self.place = wgmma.swizzle(self.row, self.chunk, self.tile.step)
        self.filter = self.block.channel(_column_of(self.row, self.tile)) * self.problem.depth
        self.fill = self._zero_points() if _fills(self.problem, self.tile) else None

    def _zero_points(self) -> Value:
        """The address of a chunk of them, which the thread copies where no input is.

        A chunk for all threads, or for a block's, would be read one thread after another.
        """
        scratch, word = self.block.memory["scratch"], self.block.parameters.input_zero_points()
        start = (ir.block() * self.tile.threads + ir.thread()) * capability.CHUNK
        scratch.store(start, *[word] * (capability.CHUNK // 4))
        ir.fence()
        return scratch.address(start)

    @property
    def count(self) -> int:
        """Values that say what is copied next."""
        return 3 + 2 * (self.tile.cells // self.rows_at_once)

    def start(self) -> list[Value]:
        """The first tile's first step, to the first stage."""
        return self._of_tile(self.block.first_cell, constant(0))

    def _of_tile(self, first_cell: Value, stage: Value) -> list[Value]:
        rows = range(0, self.tile.cells, self.rows_at_once)
        windows = [self._window(first_cell + self.row + row) for row in rows]
        return [first_cell, constant(0), stage, *(value for each in windows for value in each)]

    def _window(self, cell: Value) -> tuple[Value, Value]:
        """A cell's window: its first byte, and which rows and columns of taps meet the input.

        The first byte may lie outside. The rows are the lowest bits, columns follow. After the last
        cell come the first ones: the last again would be read one thread after another.
        """
        problem = self.problem
        height, width = problem.input
        cell = cell - cell // problem.output_pixels * problem.output_pixels
        pixel = problem.pixel_bytes
        group = self.block.group * problem.channels
        if problem.pointwise:
            return self._narrow(cell.extend() * pixel + group.extend()), constant(0)
        image, top, left = problem.window(cell)
        offset = (top * width + left) * pixel + group
        start = image.extend() * (height * width * pixel) + offset.extend_signed()
        if not problem.padded:
            return self._narrow(start), constant(0)
        bits = [
            (first + tap * problem.dilations[axis] < problem.input[axis]).to_word()
            for axis, first in enumerate((top, left))
            for tap in range(problem.kernel[axis])
        ]
        return self._narrow(start), ir.sum_of([bit << i for i, bit in enumerate(bits)])

    def _narrow(self, offset: Value) -> Value:
        """As 32 bits where they do: registers are what two blocks on a multiprocessor share."""
        return offset.to_word() if self.problem.input_bytes < 2**31 else offset

    def _filter(self, row: int, depth: Value) -> Value:
        """The address of a channel's bytes; rows further on are as far apart in a whole tile."""
        filter, size = self.block.memory["filter"], self.problem.depth
        if size % self.tile.step:
            depth = ir.minimum(depth, size - capability.CHUNK)
        if self.problem.output_channels % self.tile.channels == 0:
            return filter.address(self.filter + depth) + _column_distance(row, self.tile) * size
        channel = self.block.channel(_column_of(self.row + row, self.tile))
        return filter.address(channel * size + depth)

    def _filter_bytes(self, row: int, depth: Value) -> Value | None:
        """How many there are; None: a whole chunk, surely.

        What is not there is zero and not read: all blocks would read one row at once in its place.
        """
        exist = []
        if self.problem.depth % self.tile.step:
            exist.append(depth < self.problem.depth)
        if self.problem.output_channels % self.tile.channels:
            column = self.block.first_channel + _column_of(self.row + row, self.tile)
            exist.append(column < self.problem.output_channels)
        chunk = constant(capability.CHUNK)
        return select(functools.reduce(operator.and_, exist), chunk, 0) if exist else None

    def begin(self, ahead: Sequence[Value]) -> list[Value]:
        """Begins to copy a step's bytes; gives what is next. The block's last tile has no next."""
        first_cell, step, stage, *windows = ahead
        with ir.when(first_cell < self.problem.output_pixels):
            self._copy(step, stage, windows)
        cp_async.commit_group()
        stage = self.block.next_stage(stage)

        def next_tile() -> list[Value]:
            return self._of_tile(first_cell + self.block.cells_at_once, stage)

        def same_tile() -> list[Value]:
            return [first_cell, step + 1, stage, *windows]

        last = step == _steps(self.problem, self.tile) - 1
        return ir.cond(last, next_tile, same_tile, [value.bits for value in ahead])

    def _copy(self, step: Value, stage: Value, windows: Sequence[Value]) -> None:
        first, chunk = step * self.tile.step, self.chunk * capability.CHUNK
        to = self.block.shared.stages + stage + self.place
        for part in range(0, capability.CHUNK, self.problem.copy_bytes):
            self._copy_windows(windows, first, chunk + part, to + part)
        to, depth = to + self.tile.cells * self.tile.step, first + chunk
        for row in range(0, self.tile.channels, self.rows_at_once):
            target, source = to + row * self.tile.step, self._filter(row, depth)
            wanted = self._filter_bytes(row, depth)
            with self._where_within(row, self.tile.channels):
                cp_async.copy(target, source, capability.CHUNK, wanted)

    def _where_within(self, row: int, rows: int) -> AbstractContextManager[None]:
        """Where a thread's row, so many further on, is one of the first `rows`."""
        surely = row + self.rows_at_once <= rows
        return nullcontext() if surely else ir.when(self.row + row < rows)

    def _copy_windows(
        self, windows: Sequence[Value], first: Value, within: Value, to: Value
    ) -> None:
        """A granule of each window, all of one tap, `within` a step that begins at `first`.

        Where no input is there are zero points. What follows the last tap meets zeros of the
        filter, but where windows are summed it counts.
        """
        problem, size = self.problem, self.problem.copy_bytes
        depth = first + within
        same_tap = problem.channels % self.tile.step == 0  # as the whole step: one for all threads
        tap = (first if same_tap else depth) // problem.channels
        channel = depth - tap * problem.channels
        exists = tap < problem.taps
        tap = ir.minimum(tap, problem.taps - 1)
        y = tap // problem.kernel[1]
        x = tap - y * problem.kernel[1]
        down, right = y * problem.dilations[0], x * problem.dilations[1]
        offset = (down * problem.input[1] + right) * problem.pixel_bytes + channel
        needed = (constant(1) << y) | (constant(1) << (x + problem.kernel[0]))
        input, cached = self.block.memory["input"], _shares_lines(problem, self.tile)
        for i in range(len(windows) // 2):
            start, inside = windows[2 * i : 2 * i + 2]
            source = input.address_signed(start + (offset if start.bits == 32 else offset.extend()))
            if self.fill is not None:
                wanted = constant(1, 1)
                if problem.padded:
                    wanted = (inside & needed) == needed
                if _sums_beyond(problem, self.tile):
                    wanted = wanted & exists
                source = select(wanted, source, self.fill)
            row = i * self.rows_at_once
            with self._where_within(row, problem.output_pixels):  # fewer than rows in an only tile
                cp_async.copy(to + row * self.tile.step, source, size, cached=cached)
