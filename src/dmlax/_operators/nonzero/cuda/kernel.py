"""Kernel of nonzero_coordinates for Hopper GPUs: one pass, a tile of the input at a time.

A tile is counted, a decoupled look-back sums the counts before it, and its rows are written.
Blocks take tiles in order, so the first unfinished one never waits for another. Each zero leaves a
row to be filled, the first zero the last one, and so on backwards: a tile fills as many rows as it
has zeros, without knowing the count.
"""

import functools
import operator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability, cp_async, ir, tuning
from dmlax._cuda.capability import CHUNK, RESERVED
from dmlax._cuda.ir import Memory, Pointer, Value, constant, select
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._operators.nonzero.plan import NonzeroPlan

# A tile's state is 64 bits: the high word is one of these, the low one a count of rows.
_COUNTED = 1  # the count of this tile is known
_SUMMED = 2  # the sum of all tiles up to this one is known
_STATE_BYTES = 8
_ITEMS_BYTES = 4 * 32  # a warp's words, one for an item, of which there are up to 32


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """The elements that a thread block takes at once: `items` a thread, 32 at most.

    The grid has `blocks`, or one for each of few tiles.
    """

    items: int
    blocks: int
    plan: NonzeroPlan

    @classmethod
    def of(cls, plan: NonzeroPlan, multiprocessors: int) -> "Tile":
        """The tile that `tuning` has for an input's size."""
        sizes = (sizes for most, sizes in tuning.NONZERO_TILES if plan.elements < most)
        _, wide = tuning.NONZERO_TILES[-1]
        large = wide if plan.input.dtype.itemsize > 4 else tuning.NONZERO_LARGE_TILE
        for warpgroups, items, blocks in (next(sizes, large), tuning.NONZERO_TILES[0][1]):
            tile = cls(warpgroups, items, blocks * multiprocessors, plan)
            if 4 * _Shared.words(tile) + RESERVED <= capability.chosen().shared_bytes:
                break
        return tile

    @property
    def elements(self) -> int:
        """Elements of the tile."""
        return self.threads * self.items

    @property
    def tiles(self) -> int:
        """Tiles of the input."""
        return -(-self.plan.elements // self.elements)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.plan.input.dtype.itemsize

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.threads // 32

    @property
    def buffer_bytes(self) -> int:
        """Bytes of one of the two buffers of words: one a warp, and two."""
        return 4 * (self.warps + 2)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile of the input."""
        return self.elements * self.element_bytes


def compact(tile: Tile, input: Array) -> tuple[Array, Array]:
    """Gives the count, (1,), and the coordinates, flat."""
    words = tile.plan.size * tile.plan.coordinate_rank
    count, rows = launch(
        "dmlax_nonzero_coordinates",
        lambda memory: _Block(tile, memory).run(),
        {"input": input},
        {
            "count": jax.ShapeDtypeStruct((1,), jnp.uint32),
            "rows": jax.ShapeDtypeStruct((max(words, 1),), jnp.uint32),
        },
        blocks=min(tile.blocks, tile.tiles),
        warpgroups=tile.warpgroups,
        shared_words=_Shared.words(tile),
        zeroed_words=2 * (tile.tiles + 1),  # the states of all tiles, and the count of those taken
    )
    return count, rows


class _Shared:
    """A block's shared memory: words, and the tile that is copied.

    A warp has two words for an item. The warps' counts, the tile's first row and the
    tile to copy next are in two buffers, which take turns: a warp may begin its next tile before
    another has read what this one left.
    """

    def __init__(self, tile: Tile, pointer: Pointer) -> None:
        self.load, self.store = pointer.load, pointer.store  # words of the buffers
        self.first_row = 4 * tile.warps
        self.next_tile = self.first_row + 4
        start = pointer.shared_address() + 2 * tile.buffer_bytes
        start = ir.round_up(start, CHUNK)
        self.bits = start + ir.warp() * (2 * _ITEMS_BYTES)
        self.rows = self.bits + _ITEMS_BYTES
        self.tile = start + tile.warps * (2 * _ITEMS_BYTES)

    @staticmethod
    def words(tile: Tile) -> int:
        of_buffers = 2 * tile.buffer_bytes
        of_items = tile.warps * 2 * _ITEMS_BYTES
        return (of_buffers + CHUNK + of_items + tile.tile_bytes) // 4


class _TileState(NamedTuple):
    """The loop over a block's tiles."""

    tile: Value
    buffer: Value  # the tile's buffer, in bytes from the first
    next_tile: Value
    rows: Value  # the rows of the tile
    rows_before: Value  # the tile's rows before this warp's
    bits: Value  # the bits of the lane's item


class _LookBackState(NamedTuple):
    """The loop over the tiles before one, from the last to the first."""

    rows: Value  # the rows of the tiles seen
    last: Value  # the last of the tiles not seen
    done: Value  # 1 when a state had the sum of all tiles before it


class _Block:
    """The program of one block's threads."""

    def __init__(self, tile: Tile, memory: Memory) -> None:
        self.plan, self.tile = tile.plan, tile
        self.shared = _Shared(tile, memory["shared"])
        self.input, self.states = memory["input"], memory["zeroed"]
        self.count, self.rows = memory["count"], memory["rows"]

    def run(self) -> None:
        """Writes the coordinates and the rows after them."""
        self._process_tiles()
        self._fill_rows_beyond()

    def _process_tiles(self) -> None:
        """Takes tiles until none is left.

        While the block writes one tile, it copies the next. It counts that tile before it looks
        back for it, so that other blocks rarely wait for the count.
        """

        def step(state: _TileState) -> _TileState:
            tile, buffer = state.tile, state.buffer
            with ir.when(ir.warp() == 0):
                self._look_back(buffer, tile, state.rows)
            bits = self._find_nonzero(buffer)
            ir.barrier()
            first_row = self.shared.load(buffer + self.shared.first_row)
            next_tile = self.shared.load(buffer + self.shared.next_tile)
            counts = self._count_rows(buffer, state.next_tile)
            self._copy_tile(next_tile)
            self._write_rows(tile, state.bits, first_row + state.rows_before)
            self._fill_zeros(tile, first_row, state.rows)
            other = constant(self.tile.buffer_bytes) - buffer
            return _TileState(state.next_tile, other, next_tile, *counts, bits)

        buffer, other = constant(0), constant(self.tile.buffer_bytes)
        tile = self._broadcast_tile(buffer, self._take_tile())
        next_tile = self._take_tile()
        self._copy_tile(tile)
        bits = self._find_nonzero(other)
        next_tile = self._broadcast_tile(other, next_tile)
        counts = self._count_rows(other, tile)
        self._copy_tile(next_tile)
        start = _TileState(tile, buffer, next_tile, *counts, bits)
        ir.while_loop(start, lambda state: state.tile < self.tile.tiles, step)

    def _take_tile(self) -> Value:
        """The next tile that no block has, in the first thread."""
        address = _STATE_BYTES * self.tile.tiles
        first = ir.thread() == 0
        return ir.cond(first, lambda: self.states.atomic_add(address, 1), lambda: constant(0), 32)

    def _broadcast_tile(self, buffer: Value, tile: Value) -> Value:
        """The tile that the first thread took, in every thread."""
        with ir.when(ir.thread() == 0):
            self.shared.store(buffer + self.shared.next_tile, tile)
        ir.barrier()
        return self.shared.load(buffer + self.shared.next_tile)

    def _first_element(self) -> Value:
        """A thread's first element in a tile: a warp's items follow one another."""
        return ir.warp() * (32 * self.tile.items) + ir.lane()

    def _copy_tile(self, tile: Value) -> None:
        """Begins to copy a warp's elements of a tile; zeros beyond the input's end."""
        warp_bytes = 32 * self.tile.items * self.tile.element_bytes
        within = ir.warp() * warp_bytes + ir.lane() * CHUNK
        start = tile.extend() * self.tile.tile_bytes + within.extend()
        to = self.shared.tile + within
        chunks = range(0, warp_bytes, 32 * CHUNK)
        all_bytes = self.plan.elements * self.tile.element_bytes
        whole_tiles = self.plan.elements // self.tile.elements
        with ir.when(tile < whole_tiles):
            for chunk in chunks:
                cp_async.copy(to + chunk, self.input.address(start + chunk), CHUNK)
        with ir.when((tile >= whole_tiles) & (tile < self.tile.tiles)):
            for chunk in chunks:
                offset = ir.minimum(start + chunk, all_bytes)
                left = ir.minimum(constant(all_bytes, 64) - offset, CHUNK).to_word()
                cp_async.copy(to + chunk, self.input.address(offset), CHUNK, left)
        cp_async.commit_group()

    def _find_nonzero(self, buffer: Value) -> Value:
        """Waits for a warp's elements; a lane gets the bits of an item's that are not zero.

        One lane counts an item's bits, since a bit count takes as long as eight other instructions.
        The warp's count stays in shared memory for the block.
        """
        cp_async.wait_group(0)
        ir.warp_barrier()
        size, bits_of_item = self.tile.element_bytes, constant(0)
        first = self.shared.tile + self._first_element() * size
        items = range(self.tile.items)
        values = [ir.load_shared_element(first + 32 * size * item, 8 * size) for item in items]
        for item, value in enumerate(values):
            bits = ir.ballot(self._is_nonzero(value))
            bits_of_item = select(ir.lane() == item, bits, bits_of_item)
        count = ir.warp_sum(bits_of_item.popcount())
        with ir.when(ir.lane() == 0):
            self.shared.store(buffer + ir.warp() * 4, count)
        return bits_of_item

    def _count_rows(self, buffer: Value, tile: Value) -> tuple[Value, Value]:
        """Publishes the tile's count of rows; returns it, and the rows before this warp's."""
        counts = select(
            ir.lane() < self.tile.warps,
            self.shared.load(buffer + ir.minimum(ir.lane(), self.tile.warps - 1) * 4),
            0,
        )
        rows = ir.warp_sum(counts)
        with ir.when((ir.thread() == 0) & (tile < self.tile.tiles)):
            self._publish(tile, select(tile == 0, constant(_SUMMED), _COUNTED), rows)
        return rows, ir.broadcast_lane(ir.exclusive_warp_sum(counts), ir.warp())

    def _is_nonzero(self, value: Value) -> Value:
        """Tests an element; a float's sign does not matter."""
        dtype, bits = self.plan.input.dtype, 8 * self.tile.element_bytes
        if jnp.issubdtype(dtype, jnp.floating):
            value = value & ((1 << (bits - 1)) - 1)
        return value != 0

    def _look_back(self, buffer: Value, tile: Value, count: Value) -> None:
        """Takes a tile, sums the counts before this one, and publishes the sum; for one warp."""
        elected = ir.lane() == 0
        next_tile = self._take_tile()

        def step(before: _LookBackState) -> _LookBackState:
            rows, last, done = before
            # Several states a lane: the time is that of a read, however many are read.
            distances = [ir.lane() + 32 * i for i in range(tuning.NONZERO_LOOK_BACK_WARPS)]
            exist = [distance <= last for distance in distances]
            tiles = self._wait_for_states([last - distance for distance in distances], exist)
            for state in tiles:
                summed = ir.ballot((state >> 32).to_word() >= _SUMMED)
                nearest = select(summed == 0, constant(31), summed.trailing_zeros())
                counts = (ir.lane() <= nearest) & (done == 0)
                rows = rows + ir.warp_sum(select(counts, state.to_word(), 0))
                done = done | (summed != 0).to_word()
            return _LookBackState(rows, last - 32 * tuning.NONZERO_LOOK_BACK_WARPS, done)

        start = _LookBackState(constant(0), tile - 1, (tile == 0).to_word())
        rows = ir.while_loop(start, lambda state: state.done == 0, step).rows
        with ir.when(elected):
            self._publish(tile, constant(_SUMMED), rows + count)
            with ir.when(tile == self.tile.tiles - 1):
                self.count.store(0, rows + count)
            self.shared.store(buffer + self.shared.first_row, rows)
            self.shared.store(buffer + self.shared.next_tile, next_tile)

    def _wait_for_states(self, tiles: list[Value], exist: list[Value]) -> list[Value]:
        """Waits until tiles' states are published; every lane waits for other tiles."""
        addresses = [
            select(e, tile, 0).extend() * _STATE_BYTES for tile, e in zip(tiles, exist, strict=True)
        ]

        def load(_: object = None) -> list[Value]:
            return [self.states.load_relaxed(address) for address in addresses]

        def unpublished(states: list[Value]) -> Value:
            pairs = zip(states, exist, strict=True)
            missing = [((state >> 32).to_word() < _COUNTED) & e for state, e in pairs]
            return ir.ballot(functools.reduce(operator.or_, missing)) != 0

        states = ir.while_loop(load(), unpublished, load)
        return [select(e, state, _SUMMED << 32) for state, e in zip(states, exist, strict=True)]

    def _publish(self, tile: Value, kind: Value, rows: Value) -> None:
        """Stores a tile's state for other blocks."""
        state = rows.extend() | (kind.extend() << 32)
        self.states.store_relaxed(tile.extend() * _STATE_BYTES, state)

    def _write_rows(self, tile: Value, item_bits: Value, row: Value) -> None:
        """Writes the coordinates of a warp's nonzero elements, the first at `row`."""
        flat = tile * self.tile.elements + self._first_element()
        here = constant(1) << ir.lane()
        bits_at, rows_at = self.shared.bits, self.shared.rows
        ir.store_shared(bits_at + ir.lane() * 4, item_bits)
        ir.store_shared(rows_at + ir.lane() * 4, row + ir.exclusive_warp_sum(item_bits.popcount()))
        ir.warp_barrier()
        for item in range(self.tile.items):
            if item % 4 == 0:
                words = [ir.load_shared(start + item * 4, 4) for start in (bits_at, rows_at)]
            bits, first = (four[item % 4] for four in words)
            mine = first + (bits & (here - 1)).popcount()
            wanted = (bits & here) != 0
            if self.plan.size < self.plan.elements:
                wanted = wanted & (mine < self.plan.size)
            self._store_row(wanted, mine, self._coordinates(flat + 32 * item))

    def _coordinates(self, flat: Value) -> list[Value]:
        columns = []
        for size in reversed(self.plan.sizes[-self.plan.coordinate_rank :][1:]):
            flat, column = divmod(flat, size)
            columns.append(column)
        return [flat, *reversed(columns)]

    def _store_row(self, wanted: Value, row: Value, columns: list[Value]) -> None:
        """Stores columns side by side, as many at once as every row's address allows."""
        at_once = next(n for n in (4, 2, 1) if len(columns) % n == 0)
        offset = row.extend() * (4 * self.plan.coordinate_rank)
        for first in range(0, len(columns), at_once):
            self.rows.store_where(wanted, offset + 4 * first, *columns[first : first + at_once])

    def _fill_zeros(self, tile: Value, first_row: Value, rows: Value) -> None:
        """Fills as many rows as the tile has zeros, the last that no tile before it fills."""
        plan = self.plan
        left = constant(plan.elements) - tile * self.tile.elements
        elements, end = ir.minimum(left, self.tile.elements), first_row + left
        ends = [end - (elements - rows), end]
        if plan.size < plan.elements:
            ends = [ir.minimum(row, plan.size) for row in ends]
        start, end = (row.extend() for row in ends)
        self._fill_rows(start, end, ir.thread(), self.tile.threads)

    def _fill_rows_beyond(self) -> None:
        """Fills the rows beyond the count of elements."""
        plan, threads = self.plan, self.tile.threads
        if plan.size > plan.elements:
            ends = constant(plan.elements, 64), constant(plan.size, 64)
            blocks = min(self.tile.blocks, self.tile.tiles)
            thread = ir.block() * threads + ir.thread()
            self._fill_rows(*ends, thread, blocks * threads)

    def _fill_rows(self, start: Value, end: Value, thread: Value, threads: int) -> None:
        """Fills the rows from `start` to before `end`, by so many threads: four words at once."""
        start, end = (row * self.plan.coordinate_rank for row in (start, end))
        value, thread = constant(self.plan.fill_value), thread.extend()
        first, last = ir.minimum(ir.round_up(start, 4), end), end & ~3
        for word, limit in ((start + thread, first), (ir.maximum(last, first) + thread, end)):
            self.rows.store_where((word < limit) & (thread < 4), word << 2, value)

        def step(word: Value) -> Value:
            for i in range(tuning.NONZERO_FILLS):
                four = word + 4 * threads * i
                self.rows.store_where(four < last, four << 2, value, value, value, value)
            return word + 4 * threads * tuning.NONZERO_FILLS

        ir.while_loop(first + (thread << 2), lambda word: word < last, step)
