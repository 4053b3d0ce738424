"""The epilogue of a matrix product: accumulators become outputs in registers, and are stored."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dmlax._cuda import ir, lane_table, wgmma
from dmlax._cuda.addend_tiles import AddendTiles, ring_bytes
from dmlax._cuda.block import Block
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Memory, Pointer, Value
from dmlax._cuda.parameters import Parameters
from dmlax._cuda.product_types import SumTypes
from dmlax._cuda.quantized_sum import Adder, Byte, Fraction, bytes_of, lowest_of
from dmlax._cuda.requantize import Ratio, Requantizer


class Accumulators(NamedTuple):
    """A thread's accumulators of a tile, by product: sums, and row sums if any."""

    products: list[list[Value]]
    row_sums: list[list[Value]]


@dataclass(frozen=True)
class Output:
    """The places of the output matrices of all groups, in elements."""

    columns: int  # the columns of a group, as they are stored
    row_distance: int
    group_distance: int
    columns_of_table: int = 0  # the columns of a group that share one table of entries
    heads: int = 1  # groups whose rows lie side by side, `columns` apart
    # The place of a row among those that are stored; beyond the last one it is not.
    place_of: Callable[[Value], Value] | None = None


class _Addend(NamedTuple):
    """A quantized tensor that lies as the output does, and is added to it."""

    pointer: Pointer
    types: SumTypes
    adder: Adder

    def add_to_bytes(self, outputs: Sequence[Value], words: Sequence[Value]) -> list[Value]:
        """Adds words of four bytes to those of unsigned outputs."""
        return self.adder.add(*self._in_order(bytes_of(outputs), words))

    def add_to_fractions(self, outputs: Sequence[Value], words: Sequence[Value]) -> list[Value]:
        """Adds words of four bytes to fractions of unsigned outputs, in "float32" arithmetic."""
        return self.adder.add_float32(*self._in_order(list(map(Fraction, outputs)), words))

    def _in_order(self, outputs: Sequence[Byte | Fraction], words: Sequence[Value]) -> Any:
        """Terms in their order, the addend as unsigned bytes."""
        if lowest_of(self.types.addend):
            words = [word ^ 0x80808080 for word in words]
        terms = outputs, bytes_of(words)
        return terms[::-1] if self.types.addend_first else terms


class Epilogue:
    """The epilogue of one block's tiles."""

    def __init__(
        self,
        block: Block,
        memory: Memory,
        parameters: Parameters,
        requantizer: Requantizer | None,
        output: Output,
    ) -> None:
        """Takes the memory of the output, and of an addend and of entries that replace bytes."""
        self.block, self.tile, self.problem = block, block.tile, block.problem
        self.table, self.output, self.parameters = block.table, output, parameters
        self.requantizer, self.pointer = requantizer, memory["output"]
        self.itemsize = parameters.types.written.itemsize
        self.entries, self.addend = memory.get("entries"), self._addend(memory)
        self.lane_entries = lane_table.of_lane(block.bytes)
        self.addend_tiles = None
        if ring_bytes(block.schedule, output.columns):
            self.addend_tiles = AddendTiles(
                block.schedule, output.columns, block.ring, self._addend_chunk
            )

    def _addend(self, memory: Memory) -> _Addend | None:
        types = self.parameters.types
        if types.arithmetic is None or types.sum is None:
            return None
        dtypes = types.sum.in_order(types.output)
        adder = Adder(types.arithmetic, dtypes, self.block.constants)
        return _Addend(memory["addend"], types.sum, adder)

    @property
    def contiguous(self) -> int:
        """Elements that lie side by side, aligned, wherever a run of columns begins."""
        output = self.output
        distances = output.row_distance, output.group_distance
        return math.gcd(output.columns, *distances, 16 // self.itemsize)

    def load_columns(self) -> Callable[[], None]:
        """Begins to load what the table of columns is made of; gives what writes the table.

        The loads take as long as the first copies do, so they begin before these. A barrier must
        follow what is written.
        """
        places, load = self.table.places(self.tile.threads), self.parameters.load_column
        columns = [load(self.block.column_of_all(self.tile.column_at(place))) for place in places]
        addend = self.addend
        terms = None if addend is None else self.parameters.sum_terms()

        def write() -> None:
            for place, make_column in zip(places, columns, strict=True):
                self.table.write_at(place, make_column)
            if addend is not None and terms is not None:
                addend.adder.write(*terms)
            if self.entries is not None:
                table = self._number_of_table()
                lane_table.write(self.tile, self.block.bytes, self.entries, 8, table)

        return write

    def _number_of_table(self) -> Value | None:
        """Which of several tables has the entries of the tile's columns."""
        columns = self.output.columns_of_table
        return self.block.first_column // columns if columns else None

    def start(self, zero: Value) -> Accumulators:
        """The accumulators' first values: the columns' offsets, shared by a thread's two rows."""
        tile, offsets = self.tile, []
        for start in range(0, tile.columns, 4 * tile.run):
            for part in range(0, tile.run, 4):
                four = self.table.load_four("offset", _place_of(start, part))
                for two in (four[:2], four[2:]):
                    offsets += [*two, *two]
        row_sums = [[zero] * 4] * tile.products if self.problem.sums_rows else []
        return Accumulators([offsets] * tile.products, row_sums)

    def store(
        self, first_row: Value, accumulators: Accumulators, addend_place: Value | None
    ) -> None:
        """Stores a thread's outputs: runs of columns, of two rows 8 apart for every product.

        A warp whose rows are all beyond the last computes none.
        """
        first_of_warp = ir.warp() * 16 + ir.warpgroup() * ((self.tile.products - 1) * wgmma.ROWS)
        with ir.when(first_row + first_of_warp < self.problem.rows):
            rows = [first_row + row for row in self._rows_of_tile()]
            if self.output.place_of is not None:
                rows = [self.output.place_of(row) for row in rows]
            loads = self._begin_loads(rows, addend_place)
            for start in self._starts:
                runs = self._make_runs(start, accumulators, next(loads))
                for row, values in zip(rows, runs, strict=True):
                    self._store_run(row, self._column(start), values)

    def _begin_loads(
        self, rows: Sequence[Value], place: Value | None
    ) -> Iterator[list[list[Value]]]:
        """Yields the addend's words for every start; loads from global memory begin one ahead."""
        ahead = self.addend is not None and self.addend_tiles is None
        loads: list[list[list[Value]]] = []
        for start in self._starts:
            loads.append(self._load_addend(start, rows, place))
            if len(loads) > ahead:
                yield loads.pop(0)
        yield from loads

    def _load_addend(
        self, start: int, rows: Sequence[Value], place: Value | None
    ) -> list[list[Value]]:
        """Loads the addend's words for the runs of all rows; none without an addend."""
        if self.addend is None:
            return []
        if self.addend_tiles is None or place is None:
            return [self._load_run(row, start) for row in rows]
        chunk = (ir.lane() & 3) + start // CHUNK
        return [self.addend_tiles.load(place, row, chunk) for row in self._rows_of_tile()]

    def _addend_chunk(self, row: Value, column: Value) -> Value:
        """The address of a chunk of a tile; beyond the last row or column any that exists."""
        assert self.addend is not None
        row = ir.minimum(row, self.problem.rows - 1)
        column = self.block.first_column + column
        if self.output.columns % self.tile.columns:
            column = ir.minimum(column, self.output.columns - CHUNK)
        return self.addend.pointer.address(self._offset(row, column))

    @property
    def _starts(self) -> range:
        """Columns of the tile where runs begin, less those of lower lanes."""
        return range(0, self.tile.columns, 4 * self.tile.run)

    def _column(self, start: int) -> Value:
        """The group's column where a thread's run begins."""
        return self.block.first_column + ((ir.lane() & 3) * self.tile.run + start)

    def _rows_of_tile(self) -> list[Value]:
        """A thread's rows, from the tile's first."""
        tile = self.tile
        row = ir.warp() * 16 + (ir.lane() >> 2)
        row = row + ir.warpgroup() * ((tile.products - 1) * wgmma.ROWS)
        return [row + (i >> 1) * wgmma.ROWS + 8 * (i & 1) for i in range(2 * tile.products)]

    def _make_runs(
        self, start: int, accumulators: Accumulators, addend: Sequence[Sequence[Value]]
    ) -> list[list[Value]]:
        """The runs of outputs of a thread's rows, in the columns from `start` on."""
        tile = self.tile
        runs: list[list[Value]] = [[] for _ in range(2 * tile.products)]
        for part in range(0, tile.run, 4):
            columns = _FourColumns(self, _place_of(start, part))
            for i, product in enumerate(accumulators.products):
                eight = product[start // 2 + 2 * part :][:8]
                sums = [*eight[0:2], *eight[4:6], *eight[2:4], *eight[6:8]]
                row_sums = accumulators.row_sums[i][::2] if accumulators.row_sums else []
                added = [words[part // 4] for words in addend[2 * i :][:2]]
                for half, outputs in enumerate(self._make_outputs(sums, row_sums, columns, added)):
                    runs[2 * i + half] += outputs
        return runs

    def _make_outputs(
        self,
        sums: list[Value],
        row_sums: Sequence[Value],
        columns: "_FourColumns",
        addend: list[Value],
    ) -> list[list[Value]]:
        """Values of two rows: four accumulators or a word of bytes. `addend` has words of bytes."""
        if self.problem.sums_rows:
            zero_points = columns.zero_points
            sums = [sum - zero_points[i % 4] * row_sums[i // 4] for i, sum in enumerate(sums)]
        if self.requantizer is None:
            return [sums[:4], sums[4:]]
        words = self._quantize(self.requantizer, sums, columns, addend)
        return [[word if self.entries is None else self._look_up(word)] for word in words]

    def _look_up(self, word: Value) -> Value:
        """Replaces a word's bytes by their entries."""
        return ir.pack_bytes(lane_table.entries_of(self.lane_entries, word, 4, 8))

    def _quantize(
        self,
        requantizer: Requantizer,
        sums: Sequence[Value],
        columns: "_FourColumns",
        words: Sequence[Value],
    ) -> list[Value]:
        """Words of two rows: the accumulators of four columns, requantized, and the addend."""
        factors, addend = columns.factors * 2, self.addend
        if addend is not None and requantizer.arithmetic == "float32":
            multipliers = [factor.multiplier for factor in factors]
            fractions = requantizer.quantize_to_fractions(sums, multipliers)
            return addend.add_to_fractions(fractions, words)
        outputs = requantizer.quantize(sums, factors, columns.load_ratio)
        return outputs if addend is None else addend.add_to_bytes(outputs, words)

    def _store_run(self, row: Value, column: Value, words: Sequence[Value]) -> None:
        """A row's outputs, side by side, as many at once as the sizes allow."""
        pointer, columns, size = self.pointer, self.output.columns, self.itemsize
        start = self._offset(row, column) * size
        run = 4 * len(words) // size
        at_once = math.gcd(self.contiguous, run)
        for part in range(0, run, at_once):
            with ir.when((row < self.problem.rows) & (column + part < columns)):
                here, offset = start + part * size, part * size
                if at_once * size < 4:
                    for i in range(at_once):
                        word = words[(offset + i) // 4] >> (offset + i) % 4 * 8
                        pointer.store_byte(here + i, word)
                else:
                    pointer.store(here, *words[offset // 4 :][: at_once * size // 4])

    def _load_run(self, row: Value, start: int) -> list[Value]:
        """A row's words of the addend; beyond the last row or column any that exist."""
        assert self.addend is not None
        pointer, columns, run = self.addend.pointer, self.output.columns, self.tile.run
        at_once = math.gcd(self.contiguous, run)
        row = ir.minimum(row, self.problem.rows - 1)
        words: list[Value] = []
        for part in range(0, run, at_once):
            column = self._column(start) + part
            if columns % self.tile.columns:
                column = ir.minimum(column, columns - at_once)
            address = pointer.address(self._offset(row, column))
            words += ir.load_read_only_bytes(address, at_once)
        return words if at_once >= 4 else ir.join_bytes(words, at_once)

    def _offset(self, row: Value, column: Value) -> Value:
        """The index of an output of the block's group."""
        output, group = self.output, self.block.group
        offset = row.extend() * output.row_distance + column.extend()
        if output.heads > 1:
            group, head = divmod(group, output.heads)
            offset = offset + (head * output.columns).extend()
        return offset + group.extend() * output.group_distance


class _FourColumns:
    """The constants of four columns side by side, loaded once for all rows of a thread."""

    def __init__(self, epilogue: Epilogue, place: Value) -> None:
        self._table, self._place = epilogue.table, place
        if epilogue.problem.sums_rows:
            self.zero_points = self._table.load_four("zero_point", place)
        if epilogue.requantizer is not None:
            self.factors = self._table.load_factors(place, epilogue.requantizer.arithmetic)

    def load_ratio(self, output: Value) -> Ratio:
        """Loads the ratio of an output of several rows' four."""
        return self._table.load_ratio(self._place + (output & 3))


def _place_of(start: int, part: int) -> Value:
    """The place of a thread's four columns in the table."""
    return (ir.lane() & 3) * 4 + (start + 4 * part)
