"""The kernel of an attention of bytes: scores, their softmax and the values in one thread block.

A block of four or eight warps takes a head. Its keys, its values, transposed, and the table of
exponentials are in shared memory. A warp makes the scores of 32 queries, which stay there: 16 rows
at a time by `mma`. Every lane then computes the softmax of a row, and the warp multiplies 16 rows
at a time by the values.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from dmlax._core.byte_packing import rebase_of
from dmlax._cuda import capability, cp_async, ir, lane_table, mma, tuning
from dmlax._cuda.batching import call_merged
from dmlax._cuda.capability import CHUNK, RESERVED
from dmlax._cuda.column_table import Column
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.ir import IntOrValue, Memory, Pointer, Value, constant
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.product_types import UniformProduct
from dmlax._cuda.requantize import Requantizer
from dmlax._fused.softmax.cuda.kernel import Quotients, Row, Rows

COLUMNS = 64  # the columns of a head
_LANES = 32
_MOST_WARPS = 8
_ONES = 0x01010101


@dataclass(frozen=True)
class Sizes:
    """The sizes of the attentions of all heads of all images."""

    groups: int
    heads: int  # the heads of an image
    rows: int  # the rows of an image
    heads_last: bool  # the output is (images, rows, heads, columns), else (groups, rows, columns)

    @property
    def chunks(self) -> int:
        """Chunks of a row of scores."""
        return -(-self.rows // CHUNK)

    @property
    def of_scores(self) -> Rows:
        """The rows of scores in shared memory: whole chunks, zeros after the last weight."""
        return Rows(self.rows, self.chunks * CHUNK)

    @property
    def block(self) -> ThreadBlock:
        """The block of a head: warps for all rows, up to the most."""
        return ThreadBlock(min(-(-self.rows // (4 * _LANES)), _MOST_WARPS // 4))

    @property
    def output(self) -> tuple[int, ...]:
        """The sizes of the output."""
        if self.heads_last:
            return self.groups // self.heads, self.rows, self.heads, COLUMNS
        return self.groups, self.rows, COLUMNS


@dataclass(frozen=True)
class Problem:
    """All that is static: the products, the softmax, and where queries, keys and values lie."""

    sizes: Sizes
    rows: tuple[HeadRows, HeadRows, HeadRows]
    scores: UniformProduct
    values: UniformProduct
    quotients: Quotients


def attend(problem: Problem, y: Array, parameters: dict[str, Array], terms: Array) -> Array:
    """Attends to the queries, keys (int8) and values of `y`; the output is `sizes.output`.

    Args:
      problem: all that is static.
      y: bytes.
      parameters: single values; `scores_` or `values_` and their names, by product.
      terms: float32, the exponentials of all distances from a row's largest score, 255 first.
    """

    def merge(size: int, mapped: Sequence[Any], operands: tuple[Any, ...]) -> Array | None:
        if not mapped[0] or any(jax.tree.leaves(mapped[1:])):
            return None
        sizes = replace(problem.sizes, groups=size * problem.sizes.groups)
        output = attend(replace(problem, sizes=sizes), *operands)
        return output.reshape(size, *problem.sizes.output)

    return call_merged(functools.partial(_attend, problem), merge, y, parameters, terms)


def _attend(problem: Problem, y: Array, parameters: dict[str, Array], terms: Array) -> Array:
    sizes = problem.sizes
    (output,) = launch(
        "dmlax_attention",
        functools.partial(_body, problem),
        {"y": y.reshape(-1), "terms": terms, **parameters},
        {"output": jax.ShapeDtypeStruct(sizes.output, problem.values.types.output)},
        blocks=sizes.groups,
        warpgroups=sizes.block.warpgroups,
        shared_words=shared_bytes(sizes) // 4,
    )
    return output


class _Place(NamedTuple):
    """Addresses in shared memory."""

    table: Value
    keys: Value  # a row a key, 16 permuted as `mma` spreads columns over lanes
    values: Value  # a row a column of values, permuted for the same reason
    key_offsets: Value  # the offsets of the scores' columns
    value_offsets: Value
    scores: Value

    @classmethod
    def of(cls, sizes: Sizes, start: Value) -> "_Place":
        """Lays all out."""
        ends = itertools.accumulate(_bytes_of(sizes), initial=0)
        return cls(*(ir.round_up(start, CHUNK) + end for end in list(ends)[:-1]))


_KEY_DISTANCE = (COLUMNS // CHUNK | 1) * CHUNK  # bytes: eight keys are in different banks


def _bytes_of(sizes: Sizes) -> list[int]:
    """Bytes in shared memory, in the order of `_Place`."""
    rows, distance = sizes.chunks * CHUNK, sizes.of_scores.distance
    offsets = 4 * rows, 4 * COLUMNS
    return [lane_table.BYTES, rows * _KEY_DISTANCE, COLUMNS * distance, *offsets, rows * distance]


def is_faster(sizes: Sizes, columns: int) -> bool:
    """True for heads whose rows a block's warps take at once, and that keep most lanes busy."""
    most = tuning.LEAST_ATTENTION_ROWS <= sizes.rows <= tuning.MOST_ATTENTION_ROWS
    fits = shared_bytes(sizes) + RESERVED <= capability.chosen().shared_bytes
    return columns == COLUMNS and most and fits


def shared_bytes(sizes: Sizes) -> int:
    """Bytes of a block's shared memory; some align the first, and some are read after the last."""
    return sum(_bytes_of(sizes)) + 3 * CHUNK


def _body(problem: Problem, memory: Memory) -> None:
    """Computes a thread's share of a head."""
    y, place = memory["y"], _Place.of(problem.sizes, memory["shared"].shared_address())
    _copy_keys(problem, place, y)
    cp_async.commit_group()
    lane_table.write(problem.sizes.block, place.table, memory["terms"], 32)
    _write_values(problem, place, y)
    cp_async.wait_group(0)
    ir.barrier()
    of_scores = _Requantization(problem.scores, memory, "scores_")
    of_values = _Requantization(problem.values, memory, "values_")
    _write_offsets(problem, place, of_scores, of_values)
    ir.barrier()
    warp = _Warp(problem, place, y, memory["output"], of_scores, of_values)
    first = ir.warp() * _LANES
    ir.while_loop(first, lambda row: row < problem.sizes.rows, warp.attend)


def _copy_keys(problem: Problem, place: _Place, y: Pointer) -> None:
    """Begins to copy the keys."""
    rows, across = problem.rows[1], COLUMNS // CHUNK
    start = rows.offset(ir.block())

    def copy(chunk: Value) -> None:
        row, part = divmod(chunk, across)
        within = part * CHUNK
        to = place.keys + key_place(row) * _KEY_DISTANCE + within
        cp_async.copy(to, y.address(start + row * rows.row + within), CHUNK)

    problem.sizes.block.visit(problem.sizes.rows * across, copy)


def key_place(row: IntOrValue) -> IntOrValue:
    """The place of a key: a lane gets four scores side by side of two products of eight keys."""
    within = row & 15
    return (row - within) + ((within >> 1) & 1) * 8 + (within >> 2) * 2 + (within & 1)


def value_place(column: IntOrValue) -> IntOrValue:
    """The place of a column of values: a lane gets 16 outputs side by side."""
    within = column & 15
    return (within >> 1) * 8 + (column >> 4) * 2 + (within & 1)


def _write_values(problem: Problem, place: _Place, y: Pointer) -> None:
    """Writes the values' columns, zeros after the last row: words of 16 rows, transposed."""
    sizes, rows, across = problem.sizes, problem.rows[2], COLUMNS // 4
    signs = constant(rebase_of(problem.values.types.right) * _ONES)
    start = rows.offset(ir.block())

    def write(unit: Value) -> None:
        chunk, quad = divmod(unit, across)
        column = quad * 4
        words = []
        for i in range(CHUNK):
            row = chunk * CHUNK + i
            address = y.address(start + row * rows.row + column)
            words.append(ir.load_read_only_where(row < sizes.rows, address, signs) ^ signs)
        transposed = [ir.transpose_bytes(words[i : i + 4]) for i in range(0, CHUNK, 4)]
        for i, of_column in enumerate(zip(*transposed, strict=True)):
            to = place.values + value_place(column + i) * sizes.of_scores.distance
            ir.store_shared(to + chunk * CHUNK, *of_column)

    sizes.block.visit(sizes.chunks * across, write)


class _Requantization:
    """The requantization of a product's sums, of the same parameters for all columns."""

    def __init__(self, product: UniformProduct, memory: Memory, prefix: str) -> None:
        self.product = product
        self._memory = {
            name.removeprefix(prefix): pointer
            for name, pointer in memory.items()
            if name.startswith(prefix)
        }
        column = self.column(constant(0))
        self.zero_point, self.multiplier = column.zero_point, column.multiplier
        requantizer = self._parameters(constant(0)).requantizer()
        assert requantizer is not None
        self.requantizer: Requantizer = requantizer

    def _parameters(self, sum: Value) -> Parameters:
        product = self.product
        return Parameters(product.types, self._memory, product.summed, lambda column: sum)

    def column(self, sum: Value) -> Column:
        """The constants of a column of right with a sum."""
        return self._parameters(sum).load_column(constant(0))()

    def make_bytes(self, sums: list[Value]) -> list[Value]:
        """Words of four bytes."""
        multipliers = [self.multiplier] * len(sums)
        return self.requantizer.quantize_float32(sums, multipliers)


def _write_offsets(
    problem: Problem, place: _Place, of_scores: _Requantization, of_values: _Requantization
) -> None:
    """Writes the first terms of all columns' sums."""
    block, chunks = problem.sizes.block, problem.sizes.chunks

    def write_key(row: Value) -> None:
        start = place.keys + key_place(row) * _KEY_DISTANCE
        offset = of_scores.column(_sum_of(start, COLUMNS // CHUNK)).offset
        ir.store_shared(place.key_offsets + row * 4, offset)

    def write_value(column: Value) -> None:
        start = place.values + value_place(column) * problem.sizes.of_scores.distance
        offset = of_values.column(_sum_of(start, chunks)).offset
        ir.store_shared(place.value_offsets + column * 4, offset)

    block.visit(chunks * CHUNK, write_key)
    block.visit(COLUMNS, write_value)


def _sum_of(start: Value, chunks: int) -> Value:
    """The sum of int8 bytes in shared memory."""
    loads = (ir.load_shared(start + i * CHUNK, CHUNK // 4) for i in range(chunks))
    return ir.sum_bytes(itertools.chain.from_iterable(loads))


class _Warp:
    """The work of a warp: 32 queries at a time."""

    def __init__(
        self,
        problem: Problem,
        place: _Place,
        y: Pointer,
        output: Pointer,
        of_scores: _Requantization,
        of_values: _Requantization,
    ) -> None:
        self.problem, self.sizes, self.place = problem, problem.sizes, place
        self.y, self.output = y, output
        self.of_scores, self.of_values = of_scores, of_values
        self.distance = problem.sizes.of_scores.distance
        self.lane, self.row_of_lane, self.quarter = ir.lane(), ir.lane() >> 2, ir.lane() & 3

    def attend(self, first: Value) -> Value:
        """Attends to 32 queries; gives the next ones."""
        rows = self.sizes.rows
        ir.warp_barrier()  # the weights before are read
        end = ir.minimum(first + _LANES, rows)
        self._visit_sixteens(first, end, self._score)
        ir.warp_barrier()
        with ir.when(first + self.lane < end):
            start = self.place.scores + (first + self.lane) * self.distance
            table = lane_table.of_lane(self.place.table)
            Row(self.problem.quotients, self.sizes.of_scores, start, table).compute()
        ir.warp_barrier()
        self._visit_sixteens(first, end, self._weigh)
        return first + self.sizes.block.threads  # 32 rows a warp

    def _visit_sixteens(self, first: Value, end: Value, visit: Callable[[Value], None]) -> None:
        def step(row: Value) -> Value:
            visit(row)
            return row + mma.ROWS

        ir.while_loop(first, lambda row: row < end, step)

    def _score(self, first: Value) -> None:
        """Writes the scores of 16 queries."""
        unsigned = self.of_scores.product.types.left == np.uint8
        queries = self._load_queries(first)
        bases = self._row_terms(self.of_scores, queries)
        start = self.place.scores + (first + self.row_of_lane) * self.distance + self.quarter * 4
        keys = self.place.keys + (self.lane & 7) * _KEY_DISTANCE + (self.lane >> 3) * CHUNK
        for column in range(0, self.sizes.chunks * CHUNK, CHUNK):
            offsets = ir.load_shared(self.place.key_offsets + (self.quarter * 4 + column) * 4, 4)
            both_sums = []
            for half in range(2):
                two = offsets[2 * half : 2 * half + 2]
                sums = [base + offset for base in bases for offset in two]
                at = (column + 8 * half) * _KEY_DISTANCE
                words = mma.load_matrices(keys + at)
                for step, query in enumerate(queries):
                    right = words[2 * step : 2 * step + 2]
                    sums = mma.multiply(sums, query, right, unsigned=unsigned)
                both_sums.append(sums)
            left, right = both_sums
            words = self.of_scores.make_bytes([*left[:2], *right[:2], *left[2:], *right[2:]])
            for half, word in enumerate(words):
                ir.store_shared(start + (8 * half * self.distance + column), word)

    def _load_queries(self, first: Value) -> list[list[Value]]:
        """Loads 16 queries, 32 bytes of a row at a time; beyond the last row any that exist."""
        rows, queries = self.problem.rows[0], []
        starts = [
            rows.offset(ir.block())
            + ir.minimum(first + self.row_of_lane + 8 * half, self.sizes.rows - 1) * rows.row
            + self.quarter * 4
            for half in range(2)
        ]
        for step in range(0, COLUMNS, mma.DEPTH):
            at = [(start, step + part) for part in (0, CHUNK) for start in starts]
            queries.append([ir.load_read_only(self.y.address(start + by)) for start, by in at])
        return queries

    def _row_terms(self, by: _Requantization, left: list[list[Value]]) -> list[Value]:
        """Computes the zero point's terms of the sums of both rows of a lane."""
        zero = constant(0)
        if not by.product.sums_rows:
            return [zero, zero]
        ones, sums = [constant(_ONES)] * 2, [zero] * 4
        unsigned = by.product.types.left == np.uint8
        for words in left:
            sums = mma.multiply(sums, words, ones, unsigned=unsigned)
        return [zero - by.zero_point * sums[0], zero - by.zero_point * sums[2]]

    def _weigh(self, first: Value) -> None:
        """Stores the outputs of 16 queries."""
        weights, lane = self._load_weights(first), self.lane
        unsigned = self.of_values.product.types.left == np.uint8
        bases = self._row_terms(self.of_values, weights)
        quarter = self.place.value_offsets + self.quarter * (4 * CHUNK)
        offsets = [x for i in range(0, CHUNK, 4) for x in ir.load_shared(quarter + 4 * i, 4)]
        tiles = [
            [base + offset for base in bases for offset in offsets[2 * i : 2 * i + 2]]
            for i in range(COLUMNS // mma.COLUMNS)
        ]
        column = (lane & 7) + (lane >> 4) * 8
        start = self.place.values + column * self.distance + ((lane >> 3) & 1) * CHUNK
        for step, left in enumerate(weights):
            for i in range(0, len(tiles), 2):
                words = mma.load_matrices(start + (8 * i * self.distance + step * mma.DEPTH))
                for half in range(2):
                    right = words[2 * half : 2 * half + 2]
                    tiles[i + half] = mma.multiply(tiles[i + half], left, right, unsigned=unsigned)
        for half in range(2):
            sums = [x for tile in tiles for x in tile[2 * half : 2 * half + 2]]
            words = self.of_values.make_bytes(sums)
            row = first + self.row_of_lane + 8 * half
            with ir.when(row < self.sizes.rows):
                self.output.store(self._offset(row), *words)

    def _load_weights(self, first: Value) -> list[list[Value]]:
        """Loads 16 rows of weights, 32 bytes of a row at a time; zeros after the last chunk."""
        lane, zero, weights = self.lane, constant(0), []
        start = self.place.scores + (first + (lane & 15)) * self.distance + (lane >> 4) * CHUNK
        size = self.sizes.chunks * CHUNK
        for depth in range(0, size, mma.DEPTH):
            words = mma.load_matrices(start + depth)
            weights.append(words if depth + CHUNK < size else [*words[:2], zero, zero])
        return weights

    def _offset(self, row: Value) -> Value:
        """The index of a lane's first output of a row."""
        sizes, group, within = self.sizes, ir.block(), self.quarter * CHUNK
        if sizes.heads_last:
            image, head = divmod(group, sizes.heads)
            line = (image * sizes.rows + row) * sizes.heads + head
        else:
            line = group * sizes.rows + row
        return line * COLUMNS + within
