"""The kernel of nonzero_coordinates for Hopper GPUs: one pass, a tile of the input at a time.

A tile is counted, the tiles before it are looked back on for its first row, and its rows are
written. Blocks take tiles in order, so the first unfinished one never waits for another. Each zero
leaves a row to be filled, the first zero the last one, and so on backwards: a tile fills as many
rows as it has zeros, without knowing the count.
"""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import cp_async, ir
from dmlax._cuda import launch as cuda_launch
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Pointer, Value, constant, select
from dmlax._nonzero.plan import NonzeroPlan

# A tile's state is 64 bits: in the high word one of these, in the low one rows.
_COUNTED = 1  # the rows of this tile
_SUMMED = 2  # the rows of all tiles up to this one
_STATE_BYTES = 8
_ITEMS_BYTES = 4 * 32  # a warp's words, one for each of up to 32 items
_FOURS = 8  # stores of 16 bytes that a thread does before it looks whether that is all
_WINDOWS = 2  # of 32 tiles that are looked back on at once


@dataclass(frozen=True)
class Launch(cuda_launch.ThreadBlock):
    """How the work is split.

    `warpgroups` a block, `items` elements a thread in a tile, 32 at most, and `blocks`.
    """

    items: int
    blocks: int

    @classmethod
    def of(cls, plan: NonzeroPlan, multiprocessors: int) -> "Launch":
        """What was fastest on an H200: small inputs need tiles for every multiprocessor."""
        if plan.elements < 1 << 22:
            return cls(2, 16, 4 * multiprocessors)
        if plan.elements < 1 << 23 or plan.input.dtype.itemsize > 4:
            return cls(8, 16, multiprocessors)
        return cls(4, 32, multiprocessors)

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.threads * self.items


def compact(plan: NonzeroPlan, launch: Launch, input: Array) -> tuple[Array, Array]:
    """The count, (1,), and the coordinates, flat."""
    tiles = -(-input.size // launch.tile)
    words = plan.size * plan.coordinate_rank
    geometry = _Geometry(plan, launch, tiles)
    count, rows = cuda_launch.launch(
        "dmlax_nonzero_coordinates",
        functools.partial(_body, geometry),
        {"input": input},
        {
            "count": jax.ShapeDtypeStruct((1,), jnp.uint32),
            "rows": jax.ShapeDtypeStruct((max(words, 1),), jnp.uint32),
        },
        blocks=min(launch.blocks, tiles),
        warpgroups=launch.warpgroups,
        shared_words=_Shared.words(geometry),
        zeroed_words=2 * (tiles + 1),  # two a tile, and the last for the tiles taken
    )
    return count, rows


@dataclass(frozen=True)
class _Geometry:
    """What is known when the kernel is written."""

    plan: NonzeroPlan
    launch: Launch
    tiles: int

    @property
    def kept(self) -> tuple[int, ...]:
        """The sizes of the axes that have a column."""
        return self.plan.sizes[-self.plan.coordinate_rank :]

    @property
    def element_bytes(self) -> int:
        """Of the input."""
        return self.plan.input.dtype.itemsize

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.launch.threads // 32

    @property
    def turn_bytes(self) -> int:
        """Of a turn's words: one a warp, and two."""
        return 4 * (self.warps + 2)

    @property
    def tile_bytes(self) -> int:
        """Of the input."""
        return self.launch.tile * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Of the coordinates."""
        return 4 * self.plan.coordinate_rank


class _Shared:
    """A block's shared memory: the tile that is read, and words.

    Each warp has two for each of its items. The block has the warps' counts, the tile's first row
    and the tile to be read, for each of two turns: a warp may begin its next one before another has
    read what this one left.
    """

    def __init__(self, geometry: _Geometry, pointer: Pointer) -> None:
        self._pointer = pointer
        self._first_row = 4 * geometry.warps
        self._following = self._first_row + 4
        start = pointer.shared_address() + 2 * geometry.turn_bytes
        start = ir.round_up(start, CHUNK)
        self.bits = start + ir.warp() * (2 * _ITEMS_BYTES)
        self.rows = self.bits + _ITEMS_BYTES
        self.tile = start + geometry.warps * (2 * _ITEMS_BYTES)

    @staticmethod
    def words(geometry: _Geometry) -> int:
        of_turns = 2 * geometry.turn_bytes
        of_items = geometry.warps * 2 * _ITEMS_BYTES
        return (of_turns + CHUNK + of_items + geometry.tile_bytes) // 4

    def count_of(self, turn: Value, warp: Value) -> Value:
        return self._pointer.load(turn + warp * 4)

    def set_count_of(self, turn: Value, warp: Value, count: Value) -> None:
        self._pointer.store(turn + warp * 4, count)

    def first_row(self, turn: Value) -> Value:
        return self._pointer.load(turn + self._first_row)

    def set_first_row(self, turn: Value, row: Value) -> None:
        self._pointer.store(turn + self._first_row, row)

    def following(self, turn: Value) -> Value:
        return self._pointer.load(turn + self._following)

    def set_following(self, turn: Value, tile: Value) -> None:
        self._pointer.store(turn + self._following, tile)


@dataclass(frozen=True)
class _Memory:
    """Where everything lies."""

    input: Pointer
    state: Pointer
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
    _tiles(geometry, memory)
    _fill_beyond(geometry, memory)


def _tiles(geometry: _Geometry, memory: _Memory) -> None:
    """Takes tiles until none is left.

    While one is written, the next is read; it is counted before the block looks back for it, so
    that what others look back on has long been there.
    """
    shared = memory.shared

    def step(
        tile: Value, turn: Value, next_tile: Value, rows: Value, before: Value, found: Value
    ) -> Sequence[Value]:
        with ir.when(ir.warp() == 0):
            _look_back(geometry, memory, turn, tile, rows)
        found_next = _find(geometry, memory, turn)
        ir.barrier()
        first_row, following = shared.first_row(turn), shared.following(turn)
        counts = _count(geometry, memory, turn, next_tile)
        _read(geometry, memory, following)
        _write(geometry, memory, tile, found, first_row + before)
        _fill(geometry, memory, tile, first_row, rows)
        return [next_tile, constant(geometry.turn_bytes) - turn, following, *counts, found_next]

    turn, other = constant(0), constant(geometry.turn_bytes)
    tile = _for_all(memory, turn, _take(geometry, memory))
    next_tile = _take(geometry, memory)
    _read(geometry, memory, tile)
    found = _find(geometry, memory, other)
    next_tile = _for_all(memory, other, next_tile)
    counts = _count(geometry, memory, other, tile)
    _read(geometry, memory, next_tile)
    start = [tile, turn, next_tile, *counts, found]
    ir.while_loop(start, lambda tile, *_: tile < geometry.tiles, step)


def _take(geometry: _Geometry, memory: _Memory) -> Value:
    """The next tile that no block has, in the first thread."""
    address = _STATE_BYTES * geometry.tiles
    first = ir.thread() == 0
    (tile,) = ir.cond(
        first, lambda: [memory.state.atomic_add(address, 1)], lambda: [constant(0)], [32]
    )
    return tile


def _for_all(memory: _Memory, turn: Value, tile: Value) -> Value:
    """The tile that the first thread took, in every thread."""
    with ir.when(ir.thread() == 0):
        memory.shared.set_following(turn, tile)
    ir.barrier()
    return memory.shared.following(turn)


def _place(geometry: _Geometry) -> Value:
    """Where in a tile a thread's first element is: a warp's items follow one another."""
    return ir.warp() * (32 * geometry.launch.items) + ir.lane()


def _read(geometry: _Geometry, memory: _Memory, tile: Value) -> None:
    """Begins to copy a warp's elements of a tile; zeros beyond the input's end."""
    warp_bytes = 32 * geometry.launch.items * geometry.element_bytes
    within = ir.warp() * warp_bytes + ir.lane() * CHUNK
    start = tile.extend() * geometry.tile_bytes + within.extend()
    to = memory.shared.tile + within
    chunks = range(0, warp_bytes, 32 * CHUNK)
    all_bytes = geometry.plan.elements * geometry.element_bytes
    whole_tiles = geometry.plan.elements // geometry.launch.tile
    with ir.when(tile < whole_tiles):
        for chunk in chunks:
            cp_async.copy(to + chunk, memory.input.address(start + chunk), CHUNK)
    with ir.when((tile >= whole_tiles) & (tile < geometry.tiles)):
        for chunk in chunks:
            offset = ir.minimum(start + chunk, all_bytes)
            left = ir.minimum(constant(all_bytes, 64) - offset, CHUNK).to_word()
            cp_async.copy(to + chunk, memory.input.address(offset), CHUNK, left)
    cp_async.commit_group()


def _find(geometry: _Geometry, memory: _Memory, turn: Value) -> Value:
    """What of a warp's elements is not zero, once they are there: each lane has an item's bits.

    In one lane, as counting bits takes the machine as long as eight other instructions do. Their
    number is left for the block.
    """
    cp_async.wait_group(0)
    ir.warp_barrier()
    size, found = geometry.element_bytes, constant(0)
    first = memory.shared.tile + _place(geometry) * size
    items = range(geometry.launch.items)
    values = [ir.load_shared_element(first + 32 * size * item, 8 * size) for item in items]
    for item, value in enumerate(values):
        bits = ir.ballot(_is_nonzero(geometry, value))
        found = select(ir.lane() == item, bits, found)
    count = ir.warp_sum(found.popcount())
    with ir.when(ir.lane() == 0):
        memory.shared.set_count_of(turn, ir.warp(), count)
    return found


def _count(geometry: _Geometry, memory: _Memory, turn: Value, tile: Value) -> list[Value]:
    """The rows of the tile, which others are told, and of them those before this warp's."""
    counts = select(
        ir.lane() < geometry.warps,
        memory.shared.count_of(turn, ir.minimum(ir.lane(), geometry.warps - 1)),
        0,
    )
    rows = ir.warp_sum(counts)
    with ir.when((ir.thread() == 0) & (tile < geometry.tiles)):
        _tell(memory, tile, select(tile == 0, constant(_SUMMED), _COUNTED), rows)
    return [rows, ir.broadcast_lane(ir.exclusive_warp_sum(counts), ir.warp())]


def _is_nonzero(geometry: _Geometry, value: Value) -> Value:
    """A float's sign does not matter."""
    dtype, bits = geometry.plan.input.dtype, 8 * geometry.element_bytes
    if jnp.issubdtype(dtype, jnp.floating):
        value = value & ((1 << (bits - 1)) - 1)
    return value != 0


def _look_back(
    geometry: _Geometry, memory: _Memory, turn: Value, tile: Value, count: Value
) -> None:
    """One warp: takes a tile, sums the counts before this one, tells the sum."""
    elected = ir.lane() == 0
    following = _take(geometry, memory)

    def more(rows: Value, last: Value, done: Value) -> Value:
        return done == 0

    def step(rows: Value, last: Value, done: Value) -> Sequence[Value]:
        # Several states a lane: the time is that of a read, however many are read.
        behind = [ir.lane() + 32 * i for i in range(_WINDOWS)]
        exist = [each <= last for each in behind]
        states = _await(memory, [last - each for each in behind], exist)
        for state in states:
            summed = ir.ballot((state >> 32).to_word() >= _SUMMED)
            nearest = select(summed == 0, constant(31), summed.trailing_zeros())
            counts = (ir.lane() <= nearest) & (done == 0)
            rows = rows + ir.warp_sum(select(counts, state.to_word(), 0))
            done = done | (summed != 0).to_word()
        return [rows, last - 32 * _WINDOWS, done]

    start = [constant(0), tile - 1, (tile == 0).to_word()]
    rows, *_ = ir.while_loop(start, more, step)
    with ir.when(elected):
        _tell(memory, tile, constant(_SUMMED), rows + count)
        with ir.when(tile == geometry.tiles - 1):
            memory.count.store(0, rows + count)
        memory.shared.set_first_row(turn, rows)
        memory.shared.set_following(turn, following)


def _await(memory: _Memory, tiles: list[Value], exist: list[Value]) -> list[Value]:
    """Tiles' states in each lane, once all are told; before the first tile, no rows."""
    addresses = [
        select(e, tile, 0).extend() * _STATE_BYTES for tile, e in zip(tiles, exist, strict=True)
    ]

    def load(*_: Value) -> list[Value]:
        return [memory.state.load_relaxed(address) for address in addresses]

    def untold(*states: Value) -> Value:
        missing = [((s >> 32).to_word() < _COUNTED) & e for s, e in zip(states, exist, strict=True)]
        return ir.warp_any(functools.reduce(operator.or_, missing))

    states = ir.while_loop(load(), untold, load)
    return [select(e, state, _SUMMED << 32) for state, e in zip(states, exist, strict=True)]


def _tell(memory: _Memory, tile: Value, kind: Value, rows: Value) -> None:
    state = rows.extend() | (kind.extend() << 32)
    memory.state.store_relaxed(tile.extend() * _STATE_BYTES, state)


def _write(geometry: _Geometry, memory: _Memory, tile: Value, found: Value, row: Value) -> None:
    """The coordinates of what a warp found, `row` being its first."""
    flat, here = tile * geometry.launch.tile + _place(geometry), constant(1) << ir.lane()
    bits_at, rows_at = memory.shared.bits, memory.shared.rows
    ir.store_shared(bits_at + ir.lane() * 4, found)
    ir.store_shared(rows_at + ir.lane() * 4, row + ir.exclusive_warp_sum(found.popcount()))
    ir.warp_barrier()
    for item in range(geometry.launch.items):
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
    for size in reversed(geometry.kept[1:]):
        quotient = flat // size
        columns.append(flat - quotient * size)
        flat = quotient
    return [flat, *reversed(columns)]


def _store_row(
    geometry: _Geometry, memory: _Memory, wanted: Value, row: Value, columns: list[Value]
) -> None:
    """Side by side, as many at once as every row's address allows."""
    at_once = next(n for n in (4, 2, 1) if len(columns) % n == 0)
    offset = row.extend() * geometry.row_bytes
    for first in range(0, len(columns), at_once):
        memory.rows.store_where(wanted, offset + 4 * first, *columns[first : first + at_once])


def _fill(geometry: _Geometry, memory: _Memory, tile: Value, first_row: Value, rows: Value) -> None:
    """As many rows as the tile has zeros, the last that no tile before it filled."""
    plan = geometry.plan
    left = constant(plan.elements) - tile * geometry.launch.tile
    elements, end = ir.minimum(left, geometry.launch.tile), first_row + left
    ends = [end - (elements - rows), end]
    if plan.size < plan.elements:
        ends = [ir.minimum(row, plan.size) for row in ends]
    start, end = (row.extend() for row in ends)
    _fill_rows(geometry, memory, start, end, ir.thread(), geometry.launch.threads)


def _fill_beyond(geometry: _Geometry, memory: _Memory) -> None:
    """The rows that no element could have."""
    plan, threads = geometry.plan, geometry.launch.threads
    if plan.size > plan.elements:
        ends = constant(plan.elements, 64), constant(plan.size, 64)
        blocks = min(geometry.launch.blocks, geometry.tiles)
        thread = ir.block() * threads + ir.thread()
        _fill_rows(geometry, memory, *ends, thread, blocks * threads)


def _fill_rows(
    geometry: _Geometry, memory: _Memory, start: Value, end: Value, thread: Value, threads: int
) -> None:
    """The rows from `start` to before `end`, by so many threads: four words at once."""
    start, end = (row * geometry.plan.coordinate_rank for row in (start, end))
    value, thread = constant(geometry.plan.fill_value), thread.extend()
    first, last = ir.minimum(ir.round_up(start, 4), end), end & ~3
    for word, limit in ((start + thread, first), (ir.maximum(last, first) + thread, end)):
        memory.rows.store_where((word < limit) & (thread < 4), word << 2, value)

    def step(word: Value) -> Sequence[Value]:
        for i in range(_FOURS):
            four = word + 4 * threads * i
            memory.rows.store_where(four < last, four << 2, value, value, value, value)
        return [word + 4 * threads * _FOURS]

    ir.while_loop([first + (thread << 2)], lambda word: word < last, step)
