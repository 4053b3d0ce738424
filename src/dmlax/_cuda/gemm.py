"""The pipelined loop of a matrix product.

A block makes one tile of outputs after another. Its threads copy both matrices' rows into shared
memory, a pipeline stage of the depth at a time and some stages ahead, into the next tile too; its
`products` multiply them as bytes into int32 accumulators, and the epilogue stores these.
An accumulator never reaches memory before it is an output.

An operator brings the loader of its left matrix: see `OperandLoader`.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from dmlax._cuda import cp_async, ir, tuning, wgmma
from dmlax._cuda.addend_tiles import AddendTiles
from dmlax._cuda.block import Block
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.epilogue import Accumulators, Epilogue, Output
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.ir import Memory, Pointer, Value, constant, select
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.products import Products, products_of
from dmlax._cuda.tile import Tile


class Chunk(NamedTuple):
    """A chunk along the depth, and the address of a thread's first copy of it in shared memory."""

    step_depth: Value  # the depth at which the step begins
    within: Value  # bytes from there
    to: Value

    @property
    def depth(self) -> Value:
        """Bytes from the start of the whole depth."""
        return self.step_depth + self.within


class OperandLoader(Protocol):
    """The loader of the left matrix, whose rows may lie anywhere in memory."""

    def locate(self, row: Value) -> Any:
        """Locates a row: a pytree of values, kept while its tile is copied.

        Rows from the last on may be asked for; they are copied and not stored.
        """

    def copy(self, rows: Sequence[Any], chunk: Chunk) -> None:
        """Begins to copy a chunk of all rows of a thread, which are `rows_at_once` rows apart.

        It is of a stage's first span; those of the others are `span_offsets` from it.
        """


class ThreadCopies:
    """A thread's share of every stage: one chunk of some rows of both matrices."""

    def __init__(self, tile: Tile) -> None:
        across = tile.depth // CHUNK
        self.row = ir.thread() // across
        self.chunk = ir.thread() - self.row * across
        self.rows_at_once = tile.rows_at_once
        self.offset = wgmma.swizzle(self.row, self.chunk, tile.depth)

    def when_within(self, row: int, rows: int) -> AbstractContextManager[None]:
        """Runs what follows where the thread's row, so many further on, is within the rows."""
        surely = row + self.rows_at_once <= rows
        return nullcontext() if surely else ir.when(self.row + row < rows)


class RightLoader:
    """The loader of the right matrix: its rows are side by side, (groups * columns, depth).

    Or they lie as `rows` says.
    """

    def __init__(
        self, block: Block, copies: ThreadCopies, matrix: Pointer, rows: HeadRows | None
    ) -> None:
        self.block, self.tile, self.problem = block, block.tile, block.problem
        self.copies, self.matrix, self.rows = copies, matrix, rows
        self.distance = self.problem.depth if rows is None else rows.row
        self.start = self._start_of(self.tile.column_of(copies.row))

    def _start_of(self, column: Value) -> Value:
        """The offset of the row of a tile's column."""
        if self.rows is None:
            return self.block.column_of_all(column) * self.distance
        first: Value = self.rows.offset(self.block.group)
        return first + self.block.column_of_group(column) * self.distance

    def begin(self) -> None:
        """Begins to copy the first stage's part, or all of a matrix that is kept.

        It is in the first stage's commit group.
        """
        tile, within = self.tile, self.copies.chunk * CHUNK
        if not self.block.keeps_right:
            stage = self.block.stages + self.copies.offset
            self.copy_spans(stage + tile.rows * tile.depth, within)
            return
        to = self.block.right + self.copies.offset
        for depth in range(0, self.block.schedule.summed_depth, tile.depth):
            self._copy(to + tile.columns * depth, within + depth, (0, 0))

    def copy_spans(self, to: Value, depth: Value) -> None:
        """Begins to copy the thread's chunks of its columns, for all spans of a stage."""
        if self.problem.depth % self.tile.step_depth:
            for to_offset, depth_offset in self.block.span_offsets:
                self._copy(to + to_offset, depth + depth_offset, (0, 0))
        else:
            self._copy(to, depth, *self.block.span_offsets)

    def _copy(self, to: Value, depth: Value, *spans: tuple[int, int]) -> None:
        for row in range(0, self.tile.columns, self.copies.rows_at_once):
            target, source = to + row * self.tile.depth, self._address(row, depth)
            wanted = self._wanted_bytes(row, depth)
            with self.copies.when_within(row, self.tile.columns):
                for offsets in spans:
                    cp_async.copy(target, source, CHUNK, wanted, offsets=offsets)

    def _address(self, row: int, depth: Value) -> Value:
        """The address of a column's chunk; in a whole tile columns are as far apart for all."""
        size = self.problem.depth
        if size % self.tile.step_depth:
            depth = ir.minimum(depth, size - CHUNK)
        if self.problem.columns % self.tile.columns == 0 and self.tile.has_column_distances:
            distance = self.tile.column_distance(row) * self.distance
            return self.matrix.address(self.start + depth) + distance
        column = self.tile.column_of(self.copies.row + row)
        return self.matrix.address(self._start_of(column) + depth)

    def _wanted_bytes(self, row: int, depth: Value) -> Value | None:
        """The chunk's bytes that are in the matrix, a chunk or none; None: always a chunk.

        Others are zero and not read: all blocks would read the same ones in their place.
        """
        exist = []
        if self.problem.depth % self.tile.step_depth:
            exist.append(depth < self.problem.depth)
        if self.problem.columns % self.tile.columns:
            column = self.block.first_column + self.tile.column_of(self.copies.row + row)
            exist.append(column < self.problem.columns)
        chunk = constant(CHUNK)
        return select(functools.reduce(operator.and_, exist), chunk, 0) if exist else None


class NextCopy(NamedTuple):
    """The stage that a thread copies next."""

    first_row: Value  # the first row of the block's tile
    step: Value  # the step along the tile's depth
    stage: Value  # bytes from the first stage
    rows: list[Any]  # rows of the left matrix, as its loader locates them
    addend_place: Value | None  # the tile's place in the ring of addend tiles


@dataclass
class _Pipeline:
    """The copies of a block, ahead of its products."""

    block: Block
    copies: ThreadCopies
    left: OperandLoader
    right: RightLoader
    addend: AddendTiles | None

    def __post_init__(self) -> None:
        self.tile, self.schedule = self.block.tile, self.block.schedule

    def prologue(self, zero: Value) -> NextCopy:
        """Begins to copy the first stages, without the part of right that is copied apart."""
        first = self._begin_tile(self.block.first_row, zero, self.first)
        self._copy_stage(first, right=False)
        _, next_copy = ir.while_loop(
            (constant(1), self._commit(first)),
            lambda state: state[0] < self.tile.stages_ahead,
            lambda state: (state[0] + 1, self.copy(state[1])),  # stages that are copied
        )
        return next_copy

    def locate(self) -> list[Any]:
        """Locates the rows of the block's first tile."""
        return self._begin_tile(self.block.first_row, constant(0), self.first).rows

    def copy_step(self, step: int, rows: list[Any]) -> None:
        """Begins to copy a stage of the only tile, where there is one more."""
        if step < self.schedule.steps:
            stage = step % self.tile.stages * self.block.stage_bytes
            first_row = self.block.first_row
            this = NextCopy(first_row, constant(step), constant(stage), rows, self.first)
            self._copy_stage(this, right=step > 0)
        cp_async.commit_group()

    @property
    def first(self) -> Value | None:
        """The place of the first tile's addend."""
        return None if self.addend is None else constant(0)

    def next_place(self, place: Value | None) -> Value | None:
        """The place of the next tile's addend."""
        return None if self.addend is None or place is None else self.addend.next_place(place)

    def _begin_tile(self, first_row: Value, stage: Value, addend_place: Value | None) -> NextCopy:
        rows = range(0, self.tile.rows, self.copies.rows_at_once)
        located = [self.left.locate(first_row + self.copies.row + row) for row in rows]
        return NextCopy(first_row, constant(0), stage, located, addend_place)

    def copy(self, this: NextCopy) -> NextCopy:
        """Begins to copy a stage; gives the next stage. The block's last tile has no next one."""
        alone = self.schedule.one_tile_a_block
        exists = this.first_row < self.block.problem.rows
        if alone:
            exists = this.step < self.schedule.steps
        with ir.when(exists):
            self._copy_stage(this)
        return self._commit(this)

    def _commit(self, this: NextCopy) -> NextCopy:
        """Makes a commit group of a stage's copies; gives the next stage."""
        cp_async.commit_group()
        stage = self.block.next_stage(this.stage)
        if self.schedule.one_tile_a_block:
            return this._replace(step=this.step + 1, stage=stage)

        def next_tile() -> NextCopy:
            place = self.next_place(this.addend_place)
            return self._begin_tile(this.first_row + self.schedule.rows_at_once, stage, place)

        def same_tile() -> NextCopy:
            return this._replace(step=this.step + 1, stage=stage)

        last = this.step == self.schedule.steps - 1
        return ir.cond(last, next_tile, same_tile, ir.widths(this))

    def _copy_stage(self, this: NextCopy, *, right: bool = True) -> None:
        step_depth, within = this.step * self.tile.step_depth, self.copies.chunk * CHUNK
        to = self.block.stages + this.stage + self.copies.offset
        chunk = Chunk(step_depth, within, to)
        self.left.copy(this.rows, chunk)
        if right and not self.block.keeps_right:
            self.right.copy_spans(to + self.tile.rows * self.tile.depth, chunk.depth)
        if self.addend is not None and this.addend_place is not None:
            with ir.when(this.step == 0):
                self.addend.copy(this.addend_place, this.first_row)


class _StepState(NamedTuple):
    """The loop over a tile's depth."""

    step: Value
    stage: Value
    next_copy: NextCopy
    accumulators: Accumulators


class _TileState(NamedTuple):
    """The loop over a block's tiles."""

    first_row: Value
    stage: Value
    next_copy: NextCopy
    addend_place: Value | None


def run(
    block: Block,
    load_left: Callable[[ThreadCopies], OperandLoader],
    memory: Memory,
    parameters: Parameters,
    output: Output,
    right_rows: HeadRows | None = None,
) -> None:
    """Makes a block's tiles, from operands to outputs.

    Args:
      block: of this thread.
      load_left: gives the left matrix's loader, for a thread's share of the copies.
      memory: `output`; `right`, rows of `depth` bytes, one a column of all groups; the `addend`
        and the `entries`, if any.
      parameters: which requantize the output.
      output: where the output lies.
      right_rows: where the rows of right lie, unless they are side by side.
    """
    requantizer = parameters.requantizer()
    schedule, tile, zero = block.schedule, block.tile, constant(0)
    copies = ThreadCopies(tile)
    right_loader = RightLoader(block, copies, memory["right"], right_rows)
    epilogue = Epilogue(block, memory, parameters, requantizer, output)
    write_columns = epilogue.load_columns()
    ir.barrier()  # else the assembler moves the loads behind the copies
    right_loader.begin()  # rows of left take longer to locate
    pipeline = _Pipeline(block, copies, load_left(copies), right_loader, epilogue.addend_tiles)
    most = tuning.MOST_UNROLLED_BY_WARPS if tile.by_warps else tuning.MOST_UNROLLED_STEPS
    if schedule.one_tile_a_block and schedule.steps <= most:
        _make_one_tile(block, pipeline, epilogue, write_columns)
        return
    first_copy = pipeline.prologue(zero)
    products = _begin_products(block, write_columns)

    def step(state: _StepState) -> _StepState:
        products.wait_for_copies(tile.stages_ahead - 1)
        ir.barrier()
        accumulators, next_copy = products.add(
            state.step, state.stage, state.accumulators, lambda: pipeline.copy(state.next_copy)
        )
        return _StepState(state.step + 1, block.next_stage(state.stage), next_copy, accumulators)

    def make_tile(state: _TileState) -> _TileState:
        start = _StepState(zero, state.stage, state.next_copy, epilogue.start(zero))
        end = ir.while_loop(start, lambda inner: inner.step < schedule.steps, step)
        accumulators = products.finish(end.accumulators)
        epilogue.store(state.first_row, accumulators, state.addend_place)
        following = state.first_row + schedule.rows_at_once
        place = pipeline.next_place(state.addend_place)
        return _TileState(following, end.stage, end.next_copy, place)

    first = _TileState(block.first_row, zero, first_copy, pipeline.first)
    if schedule.one_tile_a_block:
        make_tile(first)
    else:
        ir.while_loop(first, lambda state: state.first_row < block.problem.rows, make_tile)
    products.wait_for_copies(0)


def _make_one_tile(
    block: Block, pipeline: _Pipeline, epilogue: Epilogue, write_columns: Callable[[], None]
) -> None:
    """Makes a block's only tile, of few steps, whose addresses are constants."""
    schedule, tile = block.schedule, block.tile
    rows = pipeline.locate()
    for step in range(tile.stages_ahead):
        pipeline.copy_step(step, rows)
    products = _begin_products(block, write_columns)
    accumulators = epilogue.start(constant(0))
    for step in range(schedule.steps):
        products.wait_for_copies(tile.stages_ahead - 1)
        ir.barrier()
        stage = constant(step % tile.stages * block.stage_bytes)
        following = step + tile.stages_ahead
        accumulators, _ = products.add(
            constant(step),
            stage,
            accumulators,
            functools.partial(pipeline.copy_step, following, rows),
        )
    epilogue.store(block.first_row, products.finish(accumulators), pipeline.first)
    products.wait_for_copies(0)


def _begin_products(block: Block, write_columns: Callable[[], None]) -> Products:
    """Writes what all tiles read from shared memory: the columns' constants, and any ones."""
    write_columns()
    products = products_of(block)
    products.begin()
    ir.barrier()
    return products
