"""The kernel that replaces bytes, or pairs of bytes, by entries of a table in shared memory.

A thread takes 16 outputs at a time. The loads of the next are begun before these are looked up.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._core.pairs import BANK_BITS, spread_over_banks
from dmlax._cuda import capability, cp_async, ir, tuning
from dmlax._cuda.batching import call_merged
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Memory, Pointer, Value
from dmlax._cuda.launch import ThreadBlock, launch

BYTES = 256  # entries for a byte


class Rows(NamedTuple):
    """The chunks of an operand, whose rows the output repeats."""

    size: int
    repeats: int = 1

    def chunk_of(self, output: Value) -> Value:
        """The chunk that a chunk of the output is made of."""
        if self.repeats == 1:
            return output
        row = output // (self.size * self.repeats)
        return row * self.size + (output - (output // self.size) * self.size)


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """A block, and how many run on a multiprocessor."""

    blocks: int


_ONE = Tile(tuning.LOOKUP_WARPGROUPS, tuning.LOOKUP_BLOCKS)
_PAIRS = Tile(tuning.PAIRS_WARPGROUPS, tuning.PAIRS_BLOCKS)
_WHOLE = Rows(1)  # read once


def look_up(name: str, table: Array, *operands: Array) -> Array:
    """Replaces bytes, or pairs of bytes that broadcast, by their entries in a table.

    Args:
      name: what profilers show.
      table: uint8, 256 entries; or 65,536 of pairs: that of (i, j) is at 256 * i + what
        `spread_over_banks` makes of them.
      operands: uint8, one or two, of one rank.
    """

    def merge(size: int, mapped: Sequence[bool], operands: tuple[Array, ...]) -> Array | None:
        if mapped[0]:  # every call has a table
            return None
        table, *tensors = operands
        whole = (x if varies else x[None] for x, varies in zip(tensors, mapped[1:], strict=True))
        return look_up(name, table, *whole)

    return call_merged(functools.partial(_look_up, name), merge, table, *operands)


def _look_up(name: str, table: Array, *operands: Array) -> Array:
    shape = jnp.broadcast_shapes(*(x.shape for x in operands))
    outputs = math.prod(shape)
    if outputs == 0:
        return jnp.zeros(shape, jnp.uint8)
    repeated = [_rows_of(x.shape, shape) for x in operands]
    whole = [
        (x if rows else jnp.broadcast_to(x, shape)).reshape(-1)
        for x, rows in zip(operands, repeated, strict=True)
    ]
    all_rows = [rows or _WHOLE for rows in repeated]
    tile = _ONE if table.size == BYTES else _PAIRS
    running = tile.blocks * capability.multiprocessors()
    blocks = min(-(-outputs // (CHUNK * tile.threads)), running)
    (entries,) = launch(
        name,
        lambda memory: _Block(tile, blocks, outputs, all_rows, memory).run(memory["table"]),
        {"table": table} | {f"operand_{i}": x for i, x in enumerate(whole)},
        {"output": jax.ShapeDtypeStruct((outputs,), jnp.uint8)},
        blocks=blocks,
        warpgroups=tile.warpgroups,
        shared_words=(table.size + CHUNK) // 4,
    )
    return entries.reshape(shape)


def _rows_of(shape: tuple[int, ...], output: tuple[int, ...]) -> Rows | None:
    """The rows, of whole chunks, of an operand repeated along neighbouring axes; else None."""
    axes = [(size == whole, whole) for size, whole in zip(shape, output, strict=True) if whole > 1]
    repeated = [i for i, (varies, _) in enumerate(axes) if not varies]
    if not repeated:
        return _WHOLE
    first, end = repeated[0], repeated[-1] + 1
    size = math.prod(whole for _, whole in axes[end:])
    if end - first > len(repeated) or size % CHUNK:
        return None
    return Rows(size // CHUNK, math.prod(whole for _, whole in axes[first:end]))


class _State(NamedTuple):
    """The loop over a thread's chunks."""

    chunk: Value
    words: list[list[Value]]  # a list for each operand


class _Block:
    """The program of one block's threads."""

    def __init__(
        self, tile: Tile, blocks: int, outputs: int, rows: Sequence[Rows], memory: Memory
    ) -> None:
        self.tile, self.outputs, self.output = tile, outputs, memory["output"]
        self.operands = [(memory[f"operand_{i}"], x) for i, x in enumerate(rows)]
        self.table = ir.round_up(memory["shared"].shared_address(), CHUNK)
        self.threads = blocks * tile.threads  # the threads of the grid
        self.thread = ir.block() * tile.threads + ir.thread()

    def run(self, table: Pointer) -> None:
        """Copies the table, and writes the outputs."""
        chunks = self.outputs // CHUNK
        self._copy_table(table)
        first = self._load(ir.minimum(self.thread, chunks - 1)) if chunks else []
        cp_async.wait_group(0)
        ir.barrier()

        def step(state: _State) -> _State:
            after = state.chunk + self.threads
            following = self._load(ir.minimum(after, chunks - 1))
            words = [self._look_up(*word) for word in zip(*state.words, strict=True)]
            self.output.store(state.chunk.extend() * CHUNK, *words)
            return _State(after, following)

        if chunks:
            ir.while_loop(_State(self.thread, first), lambda state: state.chunk < chunks, step)
        if left := self.outputs % CHUNK:
            with ir.when(self.thread < left):
                self._write_byte((self.thread + chunks * CHUNK).extend())

    def _copy_table(self, table: Pointer) -> None:
        """Begins to copy the table."""
        size = BYTES ** len(self.operands)
        for first in range(0, size, CHUNK * self.tile.threads):
            offset = ir.thread() * CHUNK + first
            with ir.when(offset < size):
                cp_async.copy(self.table + offset, table.address(offset), CHUNK)
        cp_async.commit_group()

    def _load(self, chunk: Value) -> list[list[Value]]:
        """Begins to load a chunk of every operand."""
        offsets = (rows.chunk_of(chunk).extend() * CHUNK for _, rows in self.operands)
        return [
            ir.load_read_only_bytes(pointer.address(offset), CHUNK)
            for (pointer, _), offset in zip(self.operands, offsets, strict=True)
        ]

    def _look_up(self, first: Value, second: Value | None = None) -> Value:
        """Four outputs, of one word of every operand."""
        if second is None:
            return self._entries([(first >> 8 * i) & 0xFF for i in range(4)])
        places = []
        for order in (0x5140, 0x7362):
            pairs = ir.permute_bytes(second, first, order)
            pairs = pairs ^ ((pairs >> 6) & (BANK_BITS * 0x10001))
            places += [pairs & 0xFFFF, pairs >> 16]
        return self._entries(places)

    def _entries(self, places: Sequence[Value]) -> Value:
        return ir.pack_bytes([self._entry(place) for place in places])

    def _entry(self, place: Value) -> Value:
        return ir.load_shared_element(self.table + place, 8)

    def _write_byte(self, place: Value) -> None:
        """Writes one of the outputs after the last chunk, where no operand has repeated rows."""
        place_of, *others = (pointer.load(place, bits=8) for pointer, _ in self.operands)
        for second in others:
            place_of = (place_of << 8) | spread_over_banks(place_of, second)
        self.output.store_byte(place, self._entry(place_of))
