"""The kernel of products of at most eight rows, whose time is that of reading the right matrix.

A warp loads columns of the right matrix straight into the registers of a matrix product of one warp
(`mma`), for a part of the depth. The sums of a block's warps meet in shared memory.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
from jax import Array

from dmlax._cuda import ir, mma, tuning
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.column_table import ColumnTable
from dmlax._cuda.ir import Memory, Value, constant, select
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.requantize import Factor, Ratio
from dmlax._operators.matmul.cuda.problem import MatmulProblem, Matrices

MOST_ROWS = mma.COLUMNS
_SPAN = 4 * CHUNK  # bytes of a row that four lanes load at once
_ONES = 0x01010101


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """The columns of a thread block, so many `eights`, and how its warps share the depth.

    `deep` warps multiply parts of the depth, and load `ahead` steps before they do. Any other warps
    only make the columns' constants.
    """

    deep: int
    eights: int
    ahead: int

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.eights * mma.COLUMNS

    @property
    def step_depth(self) -> int:
        """Bytes of a row that all warps load in a step."""
        return self.deep * _SPAN

    @property
    def sums_bytes(self) -> int:
        """Bytes of a warp's sums of eight rows: by column, and then those of the rows of left."""
        return (self.columns + 1) * MOST_ROWS * 4


def takes(problem: MatmulProblem, operands: Matrices) -> bool:
    """True for few rows of one group, which lie side by side, without an addend."""
    alone = problem.groups == 1 and problem.left_rows is None
    return problem.rows <= MOST_ROWS and alone and operands.addend is None


def choose_tile(problem: MatmulProblem, multiprocessors: int) -> Tile:
    """The fastest on an H100; columns for nearly every multiprocessor."""
    if problem.right_bytes >= tuning.FEWEST_STREAMED_BYTES:
        return Tile(1, 4, 2, 8)
    deep = 8 if problem.depth >= 8 * _SPAN else 4
    fit = (n for n in (4, 2) if _blocks(problem, 8 * n) >= 0.9 * multiprocessors)
    return Tile(deep // 4 + 1, deep, next(fit, 1), 4)


def multiply(problem: MatmulProblem, multiprocessors: int, operands: Matrices) -> Array:
    """The outputs, of the problem's sizes."""
    tile = choose_tile(problem, multiprocessors)
    (output,) = launch(
        "dmlax_multiply_few_rows",
        lambda memory: _Thread(problem, tile, memory, operands).run(),
        {n: value.reshape(-1) for n, value in operands._asdict().items() if value is not None},
        {"output": jax.ShapeDtypeStruct((problem.rows, problem.stored), problem.types.output)},
        blocks=_blocks(problem, tile.columns),
        warpgroups=tile.warpgroups,
        shared_words=(CHUNK + ColumnTable.bytes_of(tile.columns) + tile.deep * tile.sums_bytes)
        // 4,
    )
    return output.reshape(problem.output_sizes)


def _blocks(problem: MatmulProblem, columns: int) -> int:
    return -(-problem.columns // columns)


class _Words(NamedTuple):
    """A lane's bytes of a step: of a row of left, and of a column of every eight."""

    left: list[Value]
    right: list[list[Value]]


class _Sums(NamedTuple):
    """A lane's sums: of every eight columns, twice, and of rows of left, if any."""

    products: list[list[Value]]
    rows: list[Value]


class _State(NamedTuple):
    """The loop over the depth: the next step, the words of the steps ahead, and the sums."""

    step: Value
    words: list[_Words]
    sums: _Sums


class _Thread:
    """A thread of a block: it loads, multiplies and requantizes."""

    def __init__(
        self, problem: MatmulProblem, tile: Tile, memory: Memory, operands: Matrices
    ) -> None:
        self.problem, self.tile, self.memory = problem, tile, memory
        self.sums_rows = problem.sums_rows(operands)
        self.parameters = Parameters(problem.types, memory, problem.summed)
        shared = ir.round_up(memory["shared"].shared_address(), CHUNK)
        self.table = ColumnTable(shared, tile.columns)
        self.steps = -(-problem.depth // tile.step_depth)
        self.first_column = ir.block() * tile.columns
        self.row = ir.lane() >> 2
        self.depth = ir.warp() * _SPAN + (ir.lane() & 3) * CHUNK  # the lane's first byte
        rows = ir.minimum(self.row, problem.rows - 1)  # the last one in place of those beyond
        columns = [self._column(self.row + i * mma.COLUMNS) for i in range(tile.eights)]
        self.left, *self.right = (row.extend() * problem.depth for row in (rows, *columns))

    def run(self) -> None:
        """From operands to outputs."""
        # The first thread that makes constants, if there are more threads.
        first = 32 * self.tile.deep
        apart = self.tile.threads > first
        place = ir.thread() - first if apart else ir.thread()
        make_column = self.parameters.load_column(self._column(place))
        write = functools.partial(self.table.write_at, place, make_column)
        if apart:
            with ir.when(ir.thread() >= first):
                write()
        with ir.when(ir.thread() < first):
            self._store_sums(self._sum((lambda: None) if apart else write))
        ir.barrier()
        self._finish()

    def _column(self, column: Value) -> Value:
        """A column of the block's; the last one in place of those beyond."""
        return ir.minimum(self.first_column + column, self.problem.columns - 1)

    def _load(self, step: Value) -> _Words:
        """Begins to load the words of a step; beyond the depth those of left are 0."""
        size = self.problem.depth
        depth = self.depth + step * self.tile.step_depth
        inside = depth < size
        ragged = size % self.tile.step_depth > 0
        if ragged:
            depth = ir.minimum(depth, size - CHUNK)

        def load(name: str, row: Value) -> list[Value]:
            address = self.memory[name].address(row + depth.extend())
            return ir.load_read_only_bytes(address, CHUNK)

        right, left = [load("right", row) for row in self.right], load("left", self.left)
        return _Words([select(inside, x, 0) for x in left] if ragged else left, right)

    def _sum(self, meanwhile: Callable[[], None]) -> _Sums:
        """Sums the products of all steps; `meanwhile` runs after the first loads have begun."""
        zeros = [constant(0)] * 4
        sums = _Sums([zeros] * (2 * self.tile.eights), zeros if self.sums_rows else [])
        ahead = min(self.tile.ahead, self.steps)
        state = _State(constant(0), [self._load(constant(i)) for i in range(ahead)], sums)
        meanwhile()
        left = self.steps
        if left > tuning.MOST_UNROLLED_LOADS:
            last = (left // ahead - 1) * ahead
            left -= last
            whole = functools.partial(self._advance, steps=ahead, loads=ahead)
            state = ir.while_loop(state, lambda state: state.step < last, whole)
        return self._advance(state, steps=left, loads=left - ahead).sums

    def _advance(self, state: _State, *, steps: int, loads: int) -> _State:
        """Multiplies so many steps, and begins to load so many later ones."""
        words, sums, ahead = [*state.words], state.sums, len(state.words)
        for step in range(steps):
            sums = self._multiply(sums, words[step % ahead])
            if step < loads:
                words[step % ahead] = self._load(state.step + (step + ahead))
        return _State(state.step + steps, words, sums)

    def _multiply(self, sums: _Sums, words: _Words) -> _Sums:
        """Adds the products of a step, whose two halves have different sums."""
        multiply = functools.partial(mma.multiply, unsigned=self.problem.types.left == "uint8")
        products: list[list[Value]] = []
        rows, zero, eights = sums.rows, constant(0), self.tile.eights
        for half in (0, 1):
            first, second = words.left[2 * half :][:2]
            left = [first, zero, second, zero]
            for i, right in enumerate(words.right):
                sum = sums.products[half * eights + i]
                products.append(multiply(sum, left, right[2 * half :][:2]))
            if rows:
                rows = multiply(rows, left, [constant(_ONES)] * 2)
        return _Sums(products, rows)

    def _store_sums(self, sums: _Sums) -> None:
        """Stores the warp's sums, by column and row."""
        halves = sums.products[: self.tile.eights], sums.products[self.tile.eights :]
        for i, (x, y) in enumerate(zip(*halves, strict=True)):
            for j in range(2):
                column = (ir.lane() & 3) * 2 + (i * mma.COLUMNS + j)
                ir.store_shared(self._place(ir.warp(), column) + self.row * 4, x[j] + y[j])
        if sums.rows:  # every lane of a row has the same one
            place = self._place(ir.warp(), constant(self.tile.columns))
            ir.store_shared(place + self.row * 4, sums.rows[0])

    def _place(self, warp: Value, column: Value) -> Value:
        """The address of a warp's sums of a column."""
        return self.table.end + warp * self.tile.sums_bytes + column * (MOST_ROWS * 4)

    def _finish(self) -> None:
        """Makes the outputs of four rows of a column, and stores them."""
        rows = self.problem.rows
        quad, column = divmod(ir.thread(), self.tile.columns)
        exists = self.first_column + column < self.problem.columns
        with ir.when(exists & (quad * 4 < rows)):
            outputs = self._outputs(quad, column)
            place = (quad * 4 * self.problem.stored + self.first_column + column).extend()
            for i, output in enumerate(outputs[:rows]):
                with ir.when(quad * 4 + i < rows):
                    self._store(place + i * self.problem.stored, output)

    def _store(self, place: Value, output: Value) -> None:
        memory = self.memory["output"]
        if self.problem.types.arithmetic is None:
            memory.store(place * 4, output)
        else:
            memory.store_byte(place, output)

    def _outputs(self, quad: Value, column: Value) -> list[Value]:
        """The int32 sums or the bytes of four rows."""
        offset, zero_point = (self.table.load(name, column) for name in ("offset", "zero_point"))
        sums = [offset + sum for sum in self._total(quad, column)]
        if self.sums_rows:
            row_sums = self._total(quad, constant(self.tile.columns))
            sums = [sum - zero_point * row for sum, row in zip(sums, row_sums, strict=True)]
        requantizer = self.parameters.requantizer()
        if requantizer is None:
            return sums
        factor = Factor(*(self.table.load(name, column) for name in ("multiplier", "rounding")))
        ratio = functools.partial(self._load_ratio, column)
        (word,) = requantizer.quantize(sums, [factor] * 4, ratio)
        return [self._look_up(column, word >> 8 * i) for i in range(4)]

    def _load_ratio(self, column: Value, output: Value) -> Ratio:
        """Loads the ratio of a column, which all outputs of a thread have."""
        return self.table.load_ratio(column)

    def _look_up(self, column: Value, byte: Value) -> Value:
        """Replaces a byte by its entry, if there are entries."""
        if "entries" not in self.memory:
            return byte
        index = (self.first_column + column) // (self.problem.columns // self.problem.tables) * 256
        return self.memory["entries"].load((index + (byte & 0xFF)).extend(), 8)

    def _total(self, quad: Value, column: Value) -> list[Value]:
        """The sums of all warps, of four rows of a column."""
        parts = [
            ir.load_shared(self._place(constant(i), column) + quad * CHUNK, 4)
            for i in range(self.tile.deep)
        ]
        return [functools.reduce(operator.add, row) for row in zip(*parts, strict=True)]
