"""The matrix product kernel for GPUs: the engine's, its left rows side by side."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core.arguments import ABSENT
from dmlax._cuda import byte_table, capability, cp_async, gemm, ir
from dmlax._cuda.block import Block, choose_schedule, has_room, shared_bytes
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.epilogue import Output
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.ir import Memory, Pointer, Value, constant, select
from dmlax._cuda.launch import launch
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.tile import GemmProblem, Schedule
from dmlax._operators.matmul.cuda import few_rows
from dmlax._operators.matmul.cuda.problem import MatmulProblem, Matrices


def product_of(problem: MatmulProblem, operands: Matrices) -> GemmProblem:
    """The engine's problem."""
    return GemmProblem(
        rows=problem.rows,
        columns=problem.columns,
        depth=problem.depth,
        groups=problem.groups,
        unsigned=problem.types.left == jnp.uint8,
        sums_rows=problem.sums_rows(operands),
        adds=problem.types.sum is not None,
        looks_up=operands.entries is not None,
        tables=problem.tables,
    )


def multiply(problem: MatmulProblem, multiprocessors: int, operands: Matrices) -> Array:
    """The outputs, of the problem's sizes."""
    if few_rows.takes(problem, operands):
        return few_rows.multiply(problem, multiprocessors, operands)
    product = product_of(problem, operands)
    schedule = choose_schedule(product, multiprocessors, problem.columns, capability.chosen())
    if operands.entries is not None and not _looks_up_at_once(problem, schedule):
        output = multiply(problem, multiprocessors, operands._replace(entries=None))
        return _look_up(problem, output, operands.entries)

    def body(memory: Memory) -> None:
        block = Block(schedule, memory["shared"])
        sum_of = None
        if problem.right_rows is not None:
            sum_of = functools.partial(_sum_row, problem, problem.right_rows, memory["right"])
        gemm.run(
            block,
            lambda copies: RowLoader(problem, block, copies, memory["left"]),
            memory,
            Parameters(problem.types, memory, problem.summed, sum_of),
            Output(
                problem.stored,
                row_distance=problem.stored * problem.heads,
                group_distance=problem.rows * problem.stored * problem.heads,
                columns_of_table=problem.columns // problem.tables if problem.tables > 1 else 0,
                heads=problem.heads,
            ),
            problem.right_rows,
        )

    (output,) = launch(
        "dmlax_matrix_multiply",
        body,
        {n: value.reshape(-1) for n, value in operands._asdict().items() if value is not None},
        {
            "output": jax.ShapeDtypeStruct(
                (problem.groups * problem.rows, problem.stored), problem.types.written
            )
        },
        blocks=schedule.blocks,
        warpgroups=schedule.tile.warpgroups,
        shared_words=shared_bytes(schedule, problem.columns) // 4,
    )
    return output.reshape(problem.output_sizes)


def adds_in_wide_tiles(problem: MatmulProblem, multiprocessors: int) -> bool:
    """True if the tile of a product with an addend is as wide as the one that it has without."""
    product = product_of(problem, Matrices(ABSENT, ABSENT, ABSENT))
    products = product, replace(product, adds=False)
    limits = capability.chosen()
    chosen = (choose_schedule(x, multiprocessors, x.columns, limits) for x in products)
    return not limits.wgmma or all(schedule.tile.columns > 128 for schedule in chosen)


def _looks_up_at_once(problem: MatmulProblem, schedule: Schedule) -> bool:
    """True if the tables fit beside a tile, whose columns all have the same table."""
    one_table = problem.columns // problem.tables % schedule.tile.columns == 0
    return (one_table or problem.tables == 1) and has_room(schedule, problem.columns)


def _look_up(problem: MatmulProblem, output: Array, entries: Array) -> Array:
    """Looks the outputs up by separate kernels, one for every part of the columns."""
    places = output.astype(jnp.uint8)
    ends = [problem.columns // problem.tables * i for i in range(1, problem.tables)]
    parts = [
        byte_table.look_up("dmlax_quantized_lookup", table, part)
        for table, part in zip(entries, jnp.split(places, ends, -1), strict=True)
    ]
    return jnp.concatenate(parts, -1).astype(problem.types.output)


def _sum_row(problem: MatmulProblem, rows: HeadRows, right: Pointer, column: Value) -> Value:
    """The sum of a row of right, of int8, by its column of all groups."""
    group = column // problem.columns
    start = rows.offset(group) + (column - group * problem.columns) * rows.row
    depths = range(0, problem.depth, CHUNK)
    loads = (ir.load_read_only_bytes(right.address(start + depth), CHUNK) for depth in depths)
    return ir.sum_bytes(itertools.chain.from_iterable(loads))


class RowLoader:
    """The loader of left's rows, which are side by side; zeros follow a row."""

    def __init__(
        self, problem: MatmulProblem, block: Block, copies: gemm.ThreadCopies, matrix: Pointer
    ) -> None:
        self.problem, self.tile, self.copies, self.matrix = problem, block.tile, copies, matrix
        self.spans = block.span_offsets
        group, rows = block.group, problem.left_rows
        if rows is None:
            self.row_distance = problem.depth
            matrix_bytes = problem.rows * problem.depth if problem.left_groups > 1 else 0
            self.first = group.extend() * matrix_bytes
        else:
            self.row_distance = rows.row
            self.first = rows.offset(group).extend()

    def locate(self, row: Value) -> Value:
        """The offset of a row; after the last come the first ones, as nothing reads a row twice."""
        problem = self.problem
        row = row - row // problem.rows * problem.rows
        offset = self.first + row.extend() * self.row_distance
        return offset.to_word() if problem.left_bytes < 2**32 else offset

    def copy(self, rows: Sequence[Value], chunk: gemm.Chunk) -> None:
        """Begins to copy a chunk of every row."""
        if self.problem.depth % self.tile.step_depth == 0:
            self._copy(rows, chunk, self.spans)
            return
        for to, depth in self.spans:
            start = chunk.step_depth + depth
            self._copy(rows, gemm.Chunk(start, chunk.within, chunk.to + to), self.spans[:1])

    def _copy(
        self, rows: Sequence[Value], chunk: gemm.Chunk, spans: Sequence[tuple[int, int]]
    ) -> None:
        depth, wanted = chunk.depth, None
        if self.problem.depth % self.tile.step_depth:
            wanted = select(depth < self.problem.depth, constant(CHUNK), 0)
            depth = ir.minimum(depth, self.problem.depth - CHUNK)
        for i, offset in enumerate(rows):
            row = i * self.copies.rows_at_once
            # A tile may be the only one, and have fewer rows.
            with self.copies.when_within(row, min(self.tile.rows, self.problem.rows)):
                source = self.matrix.address(offset.extend() + depth.extend())
                for offsets in spans:
                    to = chunk.to + row * self.tile.depth
                    cp_async.copy(to, source, CHUNK, wanted, offsets=offsets)
