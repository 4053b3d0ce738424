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

from dmlax._core import lanes, mosaic_gpu_kernel
from dmlax._core.lanes import Pointer, Value, constant, select
from dmlax._nonzero.plan import NonzeroPlan

# A tile's state is 64 bits: in the high word one of these, in the low one rows.
_COUNTED = 1  # the rows of this tile
_SUMMED = 2  # the rows of all tiles up to this one
_STATE_BYTES = 8
_WINDOWS = 2  # of 32 tiles that are looked back on at once


@dataclass(frozen=True)
class Launch(mosaic_gpu_kernel.Block):
    """How the work is split.

    `warpgroups` a block, `items` elements a thread in a tile, and `blocks`.
    """

    items: int
    blocks: int

    @classmethod
    def of(cls, plan: NonzeroPlan, processors: int) -> "Launch":
        """What was fastest on an H200: small inputs need tiles for every multiprocessor."""
        if plan.elements < 1 << 22:
            return cls(2, 16, 4 * processors)
        if plan.elements < 1 << 23:
            return cls(4, 32, 2 * processors)
        return cls(8, 24, processors)

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.threads * self.items


def compact(plan: NonzeroPlan, launch: Launch, input: Array) -> tuple[Array, Array]:
    """The count, (1,), and the coordinates, flat."""
    tiles = -(-input.size // launch.tile)
    words = plan.size * plan.coordinate_rank
    geometry = _Geometry(plan, launch, tiles)
    count, rows = mosaic_gpu_kernel.launch(
        "dmlax_nonzero_coordinates",
        functools.partial(_body, geometry),
        {"input": input},
        {
            "count": jax.ShapeDtypeStruct((1,), jnp.uint32),
            "rows": jax.ShapeDtypeStruct((max(words, 1),), jnp.uint32),
        },
        blocks=min(launch.blocks, tiles),
        warpgroups=launch.warpgroups,
        shared_words=_Shared.words(launch),
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
    def row_bytes(self) -> int:
        """Of the coordinates."""
        return 4 * self.plan.coordinate_rank


class _Shared:
    """A block's shared words: the warps' counts, the tile's first row, the next tile."""

    def __init__(self, geometry: _Geometry, pointer: Pointer) -> None:
        self._pointer = pointer
        self._first_row = 4 * geometry.warps
        self._following = self._first_row + 4

    @staticmethod
    def words(launch: Launch) -> int:
        return launch.threads // 32 + 2

    def count_of(self, warp: Value) -> Value:
        return self._pointer.load(warp * 4)

    def set_count_of(self, warp: Value, count: Value) -> None:
        self._pointer.store(warp * 4, count)

    def first_row(self) -> Value:
        return self._pointer.load(self._first_row)

    def set_first_row(self, row: Value) -> None:
        self._pointer.store(self._first_row, row)

    def following(self) -> Value:
        return self._pointer.load(self._following)

    def set_following(self, tile: Value) -> None:
        self._pointer.store(self._following, tile)


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
    """Takes tiles until none is left; the next one is read while one is written.

    A tile is taken when its turn is next: one taken and left waiting holds up all that follow.
    """

    def step(tile: Value, *values: Value) -> Sequence[Value]:
        found = [lanes.ballot(_is_nonzero(geometry, value)) for value in values]
        with lanes.when(lanes.lane() == 0):
            mine = lanes.total([bits.popcount() for bits in found])
            memory.shared.set_count_of(lanes.warp(), mine)
        lanes.barrier()
        count = select(
            lanes.lane() < geometry.warps,
            memory.shared.count_of(lanes.minimum(lanes.lane(), geometry.warps - 1)),
            0,
        )
        before, rows = (
            lanes.from_lane(lanes.lanes_below(count), lanes.warp()),
            lanes.warp_sum(count),
        )
        with lanes.when(lanes.warp() == 0):
            _look_back(geometry, memory, tile, rows)
        lanes.barrier()
        first_row, following = memory.shared.first_row(), memory.shared.following()
        values_of_following = _read(geometry, memory, following)
        _write(geometry, memory, tile, found, first_row + before)
        _fill(geometry, memory, tile, first_row, rows)
        return [following, *values_of_following]

    with lanes.when(lanes.thread() == 0):
        memory.shared.set_following(_take(geometry, memory))
    lanes.barrier()
    tile = memory.shared.following()
    lanes.barrier()
    start = [tile, *_read(geometry, memory, tile)]
    lanes.loop(start, lambda tile, *_: tile < geometry.tiles, step)


def _take(geometry: _Geometry, memory: _Memory) -> Value:
    """The next tile that no block has."""
    return memory.state.add(_STATE_BYTES * geometry.tiles, 1)


def _place(geometry: _Geometry) -> Value:
    """Where in a tile a thread's first element is: a warp's items follow one another."""
    return lanes.warp() * (32 * geometry.launch.items) + lanes.lane()


def _read(geometry: _Geometry, memory: _Memory, tile: Value) -> list[Value]:
    """A thread's elements of a tile, 32 apart; zeros beyond the input's end."""
    size, bits = geometry.element_bytes, 8 * geometry.element_bytes
    start = tile * geometry.launch.tile
    items = range(geometry.launch.items)

    def whole() -> list[Value]:
        offset = (start + _place(geometry)).wide() * size
        return [memory.input.load(offset + 32 * item * size, bits) for item in items]

    def partial() -> list[Value]:
        exists = tile < geometry.tiles
        left = select(exists, constant(geometry.plan.elements) - start, 0)
        return [guarded(start, left, _place(geometry) + 32 * item) for item in items]

    def guarded(start: Value, left: Value, place: Value) -> Value:
        inside = place < left
        index = select(inside, start + place, 0)
        value = memory.input.load(index.wide() * size, bits)
        return select(inside, value, 0)

    whole_tiles = geometry.plan.elements // geometry.launch.tile
    widths = [max(bits, 32)] * geometry.launch.items
    return lanes.choose(tile < whole_tiles, whole, partial, widths)


def _is_nonzero(geometry: _Geometry, value: Value) -> Value:
    """A float's sign does not matter."""
    dtype, bits = geometry.plan.input.dtype, 8 * geometry.element_bytes
    if jnp.issubdtype(dtype, jnp.floating):
        value = value & ((1 << (bits - 1)) - 1)
    return value != 0


def _look_back(geometry: _Geometry, memory: _Memory, tile: Value, count: Value) -> None:
    """One warp: tells the tile's count, sums those before it, tells the sum, takes a tile."""
    elected = lanes.lane() == 0
    with lanes.when(elected & (tile != 0)):
        _tell(memory, tile, _COUNTED, count)

    def more(rows: Value, last: Value, done: Value) -> Value:
        return done == 0

    def step(rows: Value, last: Value, done: Value) -> Sequence[Value]:
        # Several states a lane: the time is that of a read, however many are read.
        behind = [lanes.lane() + 32 * i for i in range(_WINDOWS)]
        exist = [each <= last for each in behind]
        states = _await(memory, [last - each for each in behind], exist)
        for state in states:
            summed = lanes.ballot((state >> 32).word() >= _SUMMED)
            nearest = select(summed == 0, constant(31), summed.trailing_zeros())
            counts = (lanes.lane() <= nearest) & (done == 0)
            rows = rows + lanes.warp_sum(select(counts, state.word(), 0))
            done = done | (summed != 0).word()
        return [rows, last - 32 * _WINDOWS, done]

    start = [constant(0), tile - 1, (tile == 0).word()]
    rows, *_ = lanes.loop(start, more, step)
    with lanes.when(elected):
        _tell(memory, tile, _SUMMED, rows + count)
        with lanes.when(tile == geometry.tiles - 1):
            memory.count.store(0, rows + count)
        memory.shared.set_first_row(rows)
        memory.shared.set_following(_take(geometry, memory))


def _await(memory: _Memory, tiles: list[Value], exist: list[Value]) -> list[Value]:
    """Tiles' states in each lane, once all are told; before the first tile, no rows."""
    addresses = [
        select(e, tile, 0).wide() * _STATE_BYTES for tile, e in zip(tiles, exist, strict=True)
    ]

    def load(*_: Value) -> list[Value]:
        return [memory.state.load_shared_by_all(address) for address in addresses]

    def untold(*states: Value) -> Value:
        missing = [((s >> 32).word() < _COUNTED) & e for s, e in zip(states, exist, strict=True)]
        return lanes.warp_any(functools.reduce(operator.or_, missing))

    states = lanes.loop(load(), untold, load)
    return [select(e, state, _SUMMED << 32) for state, e in zip(states, exist, strict=True)]


def _tell(memory: _Memory, tile: Value, kind: int, rows: Value) -> None:
    state = rows.wide() | (kind << 32)
    memory.state.store_shared_by_all(tile.wide() * _STATE_BYTES, state)


def _write(
    geometry: _Geometry, memory: _Memory, tile: Value, found: list[Value], row: Value
) -> None:
    """The coordinates of what a warp found, `row` being its first."""
    flat, here = tile * geometry.launch.tile + _place(geometry), constant(1) << lanes.lane()
    for item, bits in enumerate(found):
        mine = row + (bits & (here - 1)).popcount()
        wanted = (bits & here) != 0
        if geometry.plan.size < geometry.plan.elements:
            wanted = wanted & (mine < geometry.plan.size)
        _store_row(geometry, memory, wanted, mine, _coordinates(geometry, flat + 32 * item))
        row = row + bits.popcount()


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
    offset = row.wide() * geometry.row_bytes
    for first in range(0, len(columns), at_once):
        memory.rows.store_where(wanted, offset + 4 * first, *columns[first : first + at_once])


def _fill(geometry: _Geometry, memory: _Memory, tile: Value, first_row: Value, rows: Value) -> None:
    """As many rows as the tile has zeros, the last that no tile before it filled."""
    plan = geometry.plan
    left = constant(plan.elements) - tile * geometry.launch.tile
    elements, end = lanes.minimum(left, geometry.launch.tile), first_row + left
    ends = [end - (elements - rows), end]
    if plan.size < plan.elements:
        ends = [lanes.minimum(row, plan.size) for row in ends]
    start, end = (row.wide() for row in ends)
    _fill_rows(geometry, memory, start, end, lanes.thread(), geometry.launch.threads)


def _fill_beyond(geometry: _Geometry, memory: _Memory) -> None:
    """The rows that no element could have."""
    plan, threads = geometry.plan, geometry.launch.threads
    if plan.size > plan.elements:
        ends = constant(plan.elements, 64), constant(plan.size, 64)
        blocks = min(geometry.launch.blocks, geometry.tiles)
        thread = lanes.block() * threads + lanes.thread()
        _fill_rows(geometry, memory, *ends, thread, blocks * threads)


def _fill_rows(
    geometry: _Geometry, memory: _Memory, start: Value, end: Value, thread: Value, threads: int
) -> None:
    """The rows from `start` to before `end`, by so many threads."""
    start, end = (row * geometry.plan.coordinate_rank for row in (start, end))
    value = constant(geometry.plan.fill_value)

    def step(four: Value) -> Sequence[Value]:
        word = four << 2
        whole = (word >= start) & (word + 4 <= end)
        with lanes.when(whole):
            memory.rows.store(word << 2, value, value, value, value)
        with lanes.when(~whole):
            for i in range(4):
                with lanes.when((word + i >= start) & (word + i < end)):
                    memory.rows.store((word + i) << 2, value)
        return [four + threads]

    lanes.loop([(start >> 2) + thread.wide()], lambda four: (four << 2) < end, step)
