"""Tiles of an addend in shared memory, copied as far ahead as the operands of the products.

They are a ring: a tile's addend arrives with the first pipeline stage of its products, and stays
until the epilogue has read it.
"""

from collections.abc import Callable

from dmlax._cuda import cp_async, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Value, constant, select
from dmlax._cuda.tile import Schedule


def ring_bytes(schedule: Schedule, columns: int) -> int:
    """Bytes of shared memory; 0 if the rows of the output are not copied in whole chunks.

    Wide tiles have none, since shared memory has no space for a second tile.
    """
    tile = schedule.tile
    if not schedule.problem.adds or columns % CHUNK or tile.run < CHUNK or tile.columns > 128:
        return 0
    tiles_ahead = 0 if schedule.one_tile_a_block else -(-(tile.stages - 1) // schedule.steps)
    return (1 + tiles_ahead) * tile.rows * tile.columns


class AddendTiles:
    """The ring of one block; a place is a number of bytes from the ring's start."""

    def __init__(
        self,
        schedule: Schedule,
        columns: int,
        address: Value,
        source: Callable[[Value, Value], Value],
    ) -> None:
        """Takes the columns of the output, and the address of an element by row and column."""
        self._tile, self._address, self._source = schedule.tile, address, source
        self._bytes = ring_bytes(schedule, columns)

    def next_place(self, place: Value) -> Value:
        """The place of the next tile."""
        size = self._tile.rows * self._tile.columns
        return select(place == self._bytes - size, constant(0), place + size)

    def copy(self, place: Value, first_row: Value) -> None:
        """Begins to copy the thread's chunks of a tile."""
        tile = self._tile
        across = tile.columns // CHUNK
        row = ir.thread() // across
        chunk = ir.thread() - row * across
        for first in range(0, tile.rows, tile.threads // across):
            to = self._address + place + self._offset(row + first, chunk)
            cp_async.copy(to, self._source(first_row + row + first, chunk * CHUNK), CHUNK)

    def load(self, place: Value, row: Value, chunk: Value) -> list[Value]:
        """Loads a chunk of a row of a tile."""
        return ir.load_shared(self._address + place + self._offset(row, chunk), CHUNK // 4)

    def _offset(self, row: Value, chunk: Value) -> Value:
        """The offset of a chunk, swizzled so that eight threads that load have no bank conflict."""
        columns = self._tile.columns
        if columns == 128:
            chunk = chunk ^ ((row & 1) << 2)
        return row * columns + chunk * CHUNK
