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

from dmlax._cuda import cp_async, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Pointer, Value, constant, select
from dmlax._cuda.launch import ThreadBlock, launch
from dmlax._nonzero.plan import NonzeroPlan

# A tile's state is 64 bits: the high word is one of these, the low one a count of rows.
_COUNTED = 1  # of this tile
_SUMMED = 2  # of all tiles up to this one
_STATE_BYTES = 8
_ITEMS_BYTES = 4 * 32  # a warp's words, one for each of up to 32 items
_FILLS = 8  # stores of 16 bytes that a thread does in an iteration
_LOOK_BACK_WARPS = 2  # of 32 tiles: the states that a look-back reads at once


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """The elements that a thread block takes at once: `items` a thread, 32 at most.

    The grid has `blocks`.
    """

    items: int
    blocks: int

    @classmethod
    def of(cls, plan: NonzeroPlan, multiprocessors: int) -> "Tile":
        """The fastest on an H200: small inputs need tiles for every multiprocessor."""
        if plan.elements < 1 << 22:
            return cls(2, 16, 4 * multiprocessors)
        if plan.elements < 1 << 23 or plan.input.dtype.itemsize > 4:
            return cls(8, 16, multiprocessors)
        return cls(4, 32, multiprocessors)

    @property
    def elements(self) -> int:
        """Elements of the tile."""
        return self.threads * self.items


def compact(plan: NonzeroPlan, tile: Tile, input: Array) -> tuple[Array, Array]:
    """Gives the count, (1,), and the coordinates, flat."""
    tiles = -(-input.size // tile.elements)
    words = plan.size * plan.coordinate_rank
    geometry = _Geometry(plan, tile, tiles)
    count, rows = launch(
        "dmlax_nonzero_coordinates",
        functools.partial(_body, geometry),
        {"input": input},
        {
            "count": jax.ShapeDtypeStruct((1,), jnp.uint32),
            "rows": jax.ShapeDtypeStruct((max(words, 1),), jnp.uint32),
        },
        blocks=min(tile.blocks, tiles),
        warpgroups=tile.warpgroups,
        shared_words=_Shared.words(geometry),
        zeroed_words=2 * (tiles + 1),  # a state of each tile, and the count of those taken
    )
    return count, rows


@dataclass(frozen=True)
class _Geometry:
    """Sizes that are constants of the kernel."""

    plan: NonzeroPlan
    tile: Tile
    tiles: int

    @property
    def column_sizes(self) -> tuple[int, ...]:
        """Sizes of the axes that have a column."""
        return self.plan.sizes[-self.plan.coordinate_rank :]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.plan.input.dtype.itemsize

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.tile.threads // 32

    @property
    def buffer_bytes(self) -> int:
        """Bytes of one of the two buffers of words: one a warp, and two."""
        return 4 * (self.warps + 2)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile of the input."""
        return self.tile.elements * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of coordinates."""
        return 4 * self.plan.coordinate_rank


class _Shared:
    """A block's shared memory: words, and the tile that is copied.

    Each warp has two words for each of its items. The warps' counts, the tile's first row and the
    tile to copy next are in two buffers, which take turns: a warp may begin its next tile before
    another has read what this one left.
    """

    def __init__(self, geometry: _Geometry, pointer: Pointer) -> None:
        self._pointer = pointer
        self._first_row = 4 * geometry.warps
        self._next_tile = self._first_row + 4
        start = pointer.shared_address() + 2 * geometry.buffer_bytes
        start = ir.round_up(start, CHUNK)
        self.bits = start + ir.warp() * (2 * _ITEMS_BYTES)
        self.rows = self.bits + _ITEMS_BYTES
        self.tile = start + geometry.warps * (2 * _ITEMS_BYTES)

    @staticmethod
    def words(geometry: _Geometry) -> int:
        of_buffers = 2 * geometry.buffer_bytes
        of_items = geometry.warps * 2 * _ITEMS_BYTES
        return (of_buffers + CHUNK + of_items + geometry.tile_bytes) // 4

    def count_of(self, buffer: Value, warp: Value) -> Value:
        return self._pointer.load(buffer + warp * 4)

    def set_count_of(self, buffer: Value, warp: Value, count: Value) -> None:
        self._pointer.store(buffer + warp * 4, count)

    def first_row(self, buffer: Value) -> Value:
        return self._pointer.load(buffer + self._first_row)

    def set_first_row(self, buffer: Value, row: Value) -> None:
        self._pointer.store(buffer + self._first_row, row)

    def next_tile(self, buffer: Value) -> Value:
        return self._pointer.load(buffer + self._next_tile)

    def set_next_tile(self, buffer: Value, tile: Value) -> None:
        self._pointer.store(buffer + self._next_tile, tile)


@dataclass(frozen=True)
class _Memory:
    """Pointers to the operands, the outputs, the tiles' states and shared memory."""

    input: Pointer
    states: Pointer
    count: Pointer
    rows: Pointer
    shared: _Shared


def _body(
    geometry: _Geometry,
    input: Pointer,
    count: Pointer,
    rows: Pointer,
    shared: Pointer,
    zeroed: Pointer,
) -> None:
    memory = _Memory(input, zeroed, count, rows, _Shared(geometry, shared))
    _process_tiles(geometry, memory)
    _fill_rows_beyond(geometry, memory)


class _TileState(NamedTuple):
    """The loop over a block's tiles."""

    tile: Value
    buffer: Value  # of this tile, in bytes from the first
    next_tile: Value
    rows: Value  # of the tile
    rows_before: Value  # of those, the rows before this warp's
    found: Value  # the item's bits, in each lane


def _process_tiles(geometry: _Geometry, memory: _Memory) -> None:
    """Takes tiles until none is left.

    While one is written, the next is copied; it is counted before the block looks back for it, so
    that a count has been published long before others look back on it.
    """
    shared = memory.shared

    def step(state: _TileState) -> _TileState:
        tile, buffer = state.tile, state.buffer
        with ir.when(ir.warp() == 0):
            _look_back(geometry, memory, buffer, tile, state.rows)
        found = _find_nonzero(geometry, memory, buffer)
        ir.barrier()
        first_row, next_tile = shared.first_row(buffer), shared.next_tile(buffer)
        counts = _count_rows(geometry, memory, buffer, state.next_tile)
        _copy_tile(geometry, memory, next_tile)
        _write_rows(geometry, memory, tile, state.found, first_row + state.rows_before)
        _fill_zeros(geometry, memory, tile, first_row, state.rows)
        other = constant(geometry.buffer_bytes) - buffer
        return _TileState(state.next_tile, other, next_tile, *counts, found)

    buffer, other = constant(0), constant(geometry.buffer_bytes)
    tile = _broadcast_tile(memory, buffer, _take_tile(geometry, memory))
    next_tile = _take_tile(geometry, memory)
    _copy_tile(geometry, memory, tile)
    found = _find_nonzero(geometry, memory, other)
    next_tile = _broadcast_tile(memory, other, next_tile)
    counts = _count_rows(geometry, memory, other, tile)
    _copy_tile(geometry, memory, next_tile)
    start = _TileState(tile, buffer, next_tile, *counts, found)
    ir.while_loop(start, lambda state: state.tile < geometry.tiles, step)


def _take_tile(geometry: _Geometry, memory: _Memory) -> Value:
    """The next tile that no block has, in the first thread."""
    address = _STATE_BYTES * geometry.tiles
    first = ir.thread() == 0
    return ir.cond(first, lambda: memory.states.atomic_add(address, 1), lambda: constant(0), 32)


def _broadcast_tile(memory: _Memory, buffer: Value, tile: Value) -> Value:
    """The tile that the first thread took, in every thread."""
    with ir.when(ir.thread() == 0):
        memory.shared.set_next_tile(buffer, tile)
    ir.barrier()
    return memory.shared.next_tile(buffer)


def _first_element(geometry: _Geometry) -> Value:
    """A thread's first element in a tile: a warp's items follow one another."""
    return ir.warp() * (32 * geometry.tile.items) + ir.lane()


def _copy_tile(geometry: _Geometry, memory: _Memory, tile: Value) -> None:
    """Begins to copy a warp's elements of a tile; zeros beyond the input's end."""
    warp_bytes = 32 * geometry.tile.items * geometry.element_bytes
    within = ir.warp() * warp_bytes + ir.lane() * CHUNK
    start = tile.extend() * geometry.tile_bytes + within.extend()
    to = memory.shared.tile + within
    chunks = range(0, warp_bytes, 32 * CHUNK)
    all_bytes = geometry.plan.elements * geometry.element_bytes
    whole_tiles = geometry.plan.elements // geometry.tile.elements
    with ir.when(tile < whole_tiles):
        for chunk in chunks:
            cp_async.copy(to + chunk, memory.input.address(start + chunk), CHUNK)
    with ir.when((tile >= whole_tiles) & (tile < geometry.tiles)):
        for chunk in chunks:
            offset = ir.minimum(start + chunk, all_bytes)
            left = ir.minimum(constant(all_bytes, 64) - offset, CHUNK).to_word()
            cp_async.copy(to + chunk, memory.input.address(offset), CHUNK, left)
    cp_async.commit_group()


def _find_nonzero(geometry: _Geometry, memory: _Memory, buffer: Value) -> Value:
    """Waits for a warp's elements; a lane gets the bits of an item's that are not zero.

    One lane has them, as counting bits takes as long as eight other instructions. The warp's count
    is left for the block.
    """
    cp_async.wait_group(0)
    ir.warp_barrier()
    size, found = geometry.element_bytes, constant(0)
    first = memory.shared.tile + _first_element(geometry) * size
    items = range(geometry.tile.items)
    values = [ir.load_shared_element(first + 32 * size * item, 8 * size) for item in items]
    for item, value in enumerate(values):
        bits = ir.ballot(_is_nonzero(geometry, value))
        found = select(ir.lane() == item, bits, found)
    count = ir.warp_sum(found.popcount())
    with ir.when(ir.lane() == 0):
        memory.shared.set_count_of(buffer, ir.warp(), count)
    return found


def _count_rows(
    geometry: _Geometry, memory: _Memory, buffer: Value, tile: Value
) -> tuple[Value, Value]:
    """Counts and publishes the tile's rows; gives the count, and the rows before this warp's."""
    counts = select(
        ir.lane() < geometry.warps,
        memory.shared.count_of(buffer, ir.minimum(ir.lane(), geometry.warps - 1)),
        0,
    )
    rows = ir.warp_sum(counts)
    with ir.when((ir.thread() == 0) & (tile < geometry.tiles)):
        _publish(memory, tile, select(tile == 0, constant(_SUMMED), _COUNTED), rows)
    return rows, ir.broadcast_lane(ir.exclusive_warp_sum(counts), ir.warp())


def _is_nonzero(geometry: _Geometry, value: Value) -> Value:
    """Tests an element; a float's sign does not matter."""
    dtype, bits = geometry.plan.input.dtype, 8 * geometry.element_bytes
    if jnp.issubdtype(dtype, jnp.floating):
        value = value & ((1 << (bits - 1)) - 1)
    return value != 0


class _LookBackState(NamedTuple):
    """The loop over the tiles before one, from the last to the first."""

    rows: Value  # of the tiles seen
    last: Value  # of the tiles not seen
    done: Value  # 1: a sum of all tiles before was found


def _look_back(
    geometry: _Geometry, memory: _Memory, buffer: Value, tile: Value, count: Value
) -> None:
    """Takes a tile, sums the counts before this one, and publishes the sum; for one warp."""
    elected = ir.lane() == 0
    next_tile = _take_tile(geometry, memory)

    def step(state: _LookBackState) -> _LookBackState:
        rows, last, done = state
        # Several states a lane: the time is that of a read, however many are read.
        behind = [ir.lane() + 32 * i for i in range(_LOOK_BACK_WARPS)]
        exist = [each <= last for each in behind]
        states = _wait_for_states(memory, [last - each for each in behind], exist)
        for each in states:
            summed = ir.ballot((each >> 32).to_word() >= _SUMMED)
            nearest = select(summed == 0, constant(31), summed.trailing_zeros())
            counts = (ir.lane() <= nearest) & (done == 0)
            rows = rows + ir.warp_sum(select(counts, each.to_word(), 0))
            done = done | (summed != 0).to_word()
        return _LookBackState(rows, last - 32 * _LOOK_BACK_WARPS, done)

    start = _LookBackState(constant(0), tile - 1, (tile == 0).to_word())
    rows = ir.while_loop(start, lambda state: state.done == 0, step).rows
    with ir.when(elected):
        _publish(memory, tile, constant(_SUMMED), rows + count)
        with ir.when(tile == geometry.tiles - 1):
            memory.count.store(0, rows + count)
        memory.shared.set_first_row(buffer, rows)
        memory.shared.set_next_tile(buffer, next_tile)


def _wait_for_states(memory: _Memory, tiles: list[Value], exist: list[Value]) -> list[Value]:
    """Waits until tiles' states are published; each lane has its own. No tile is no rows."""
    addresses = [
        select(e, tile, 0).extend() * _STATE_BYTES for tile, e in zip(tiles, exist, strict=True)
    ]

    def load(_: object = None) -> list[Value]:
        return [memory.states.load_relaxed(address) for address in addresses]

    def unpublished(states: list[Value]) -> Value:
        missing = [((s >> 32).to_word() < _COUNTED) & e for s, e in zip(states, exist, strict=True)]
        return ir.warp_any(functools.reduce(operator.or_, missing))

    states = ir.while_loop(load(), unpublished, load)
    return [select(e, state, _SUMMED << 32) for state, e in zip(states, exist, strict=True)]


def _publish(memory: _Memory, tile: Value, kind: Value, rows: Value) -> None:
    """Stores a tile's state for other blocks."""
    state = rows.extend() | (kind.extend() << 32)
    memory.states.store_relaxed(tile.extend() * _STATE_BYTES, state)


def _write_rows(
    geometry: _Geometry, memory: _Memory, tile: Value, found: Value, row: Value
) -> None:
    """Writes the coordinates of what a warp found, the first at `row`."""
    flat, here = tile * geometry.tile.elements + _first_element(geometry), constant(1) << ir.lane()
    bits_at, rows_at = memory.shared.bits, memory.shared.rows
    ir.store_shared(bits_at + ir.lane() * 4, found)
    ir.store_shared(rows_at + ir.lane() * 4, row + ir.exclusive_warp_sum(found.popcount()))
    ir.warp_barrier()
    for item in range(geometry.tile.items):
        if item % 4 == 0:
            words = [ir.load_shared(start + item * 4, 4) for start in (bits_at, rows_at)]
        bits, first = (four[item % 4] for four in words)
        mine = first + (bits & (here - 1)).popcount()
        wanted = (bits & here) != 0
        if geometry.plan.size < geometry.plan.elements:
            wanted = wanted & (mine < geometry.plan.size)
        _store_row(geometry, memory, wanted, mine, _coordinates(geometry, flat + 32 * item))


def _coordinates(geometry: _Geometry, flat: Value) -> list[Value]:
    columns = []
    for size in reversed(geometry.column_sizes[1:]):
        quotient = flat // size
        columns.append(flat - quotient * size)
        flat = quotient
    return [flat, *reversed(columns)]


def _store_row(
    geometry: _Geometry, memory: _Memory, wanted: Value, row: Value, columns: list[Value]
) -> None:
    """Stores columns side by side, as many at once as every row's address allows."""
    at_once = next(n for n in (4, 2, 1) if len(columns) % n == 0)
    offset = row.extend() * geometry.row_bytes
    for first in range(0, len(columns), at_once):
        memory.rows.store_where(wanted, offset + 4 * first, *columns[first : first + at_once])


def _fill_zeros(
    geometry: _Geometry, memory: _Memory, tile: Value, first_row: Value, rows: Value
) -> None:
    """Fills as many rows as the tile has zeros, the last that no tile before it fills."""
    plan = geometry.plan
    left = constant(plan.elements) - tile * geometry.tile.elements
    elements, end = ir.minimum(left, geometry.tile.elements), first_row + left
    ends = [end - (elements - rows), end]
    if plan.size < plan.elements:
        ends = [ir.minimum(row, plan.size) for row in ends]
    start, end = (row.extend() for row in ends)
    _fill_rows(geometry, memory, start, end, ir.thread(), geometry.tile.threads)


def _fill_rows_beyond(geometry: _Geometry, memory: _Memory) -> None:
    """Fills the rows beyond the count of elements."""
    plan, threads = geometry.plan, geometry.tile.threads
    if plan.size > plan.elements:
        ends = constant(plan.elements, 64), constant(plan.size, 64)
        blocks = min(geometry.tile.blocks, geometry.tiles)
        thread = ir.block() * threads + ir.thread()
        _fill_rows(geometry, memory, *ends, thread, blocks * threads)


def _fill_rows(
    geometry: _Geometry, memory: _Memory, start: Value, end: Value, thread: Value, threads: int
) -> None:
    """Fills the rows from `start` to before `end`, by so many threads: four words at once."""
    start, end = (row * geometry.plan.coordinate_rank for row in (start, end))
    value, thread = constant(geometry.plan.fill_value), thread.extend()
    first, last = ir.minimum(ir.round_up(start, 4), end), end & ~3
    for word, limit in ((start + thread, first), (ir.maximum(last, first) + thread, end)):
        memory.rows.store_where((word < limit) & (thread < 4), word << 2, value)

    def step(word: Value) -> Value:
        for i in range(_FILLS):
            four = word + 4 * threads * i
            memory.rows.store_where(four < last, four << 2, value, value, value, value)
        return word + 4 * threads * _FILLS

    ir.while_loop(first + (thread << 2), lambda word: word < last, step)
