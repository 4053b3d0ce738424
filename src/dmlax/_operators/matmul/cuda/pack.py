"""The kernel that packs right matrices: their bytes transposed, as int8, and summed by column.

A thread block takes one matrix. It copies the rows to shared memory; a thread makes 16 bytes of
four columns.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.byte_packing import rebase_of
from dmlax._cuda import cp_async, ir
from dmlax._cuda.batching import call_merged
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.ir import Memory, Value, constant
from dmlax._cuda.launch import ThreadBlock, launch

_BLOCK = ThreadBlock(2)
_SKEW = 64  # bytes after every 16 rows, which half a warp reads beside the next ones
_MOST_BYTES = 48 * 1024  # the shared memory of a block
_ONES = 0x01010101


def has_room(depth: int, columns: int) -> bool:
    """True for matrices of whole chunks of columns that fit a block's shared memory."""
    return columns % CHUNK == 0 and 0 < _shared_bytes(depth, columns) <= _MOST_BYTES


def pack_heads(
    rows: HeadRows, sizes: tuple[int, int, int], dtype: np.dtype, matrices: Array
) -> tuple[Array, Array]:
    """Packs (groups, K, N): int8 (groups, N, K up to a chunk), zeros last; int32 sums (groups, N).

    uint8 is re-based by 128.

    Args:
      rows: of the matrices.
      sizes: of all matrices.
      dtype: of the elements, whichever the array has.
      matrices: of any shape.
    """

    def merge(size: int, mapped: Sequence[bool], operands: tuple[Array]) -> tuple[Array, Array]:
        groups, depth, columns = sizes
        packed, sums = pack_heads(rows, (size * groups, depth, columns), dtype, *operands)
        return packed.reshape(size, groups, *packed.shape[1:]), sums.reshape(size, groups, columns)

    return call_merged(functools.partial(_pack, rows, sizes, dtype), merge, matrices)


def _pack(
    rows: HeadRows, sizes: tuple[int, int, int], dtype: np.dtype, matrices: Array
) -> tuple[Array, Array]:
    groups, depth, columns = sizes
    padded = _round_up(depth)
    packed, sums = launch(
        "dmlax_pack_columns",
        functools.partial(_body, rows, depth, columns, rebase_of(dtype) * _ONES),
        {"matrices": matrices.reshape(-1)},
        {
            "packed": jax.ShapeDtypeStruct((groups * columns * padded,), jnp.int8),
            "sums": jax.ShapeDtypeStruct((groups * columns,), jnp.int32),
        },
        blocks=groups,
        warpgroups=_BLOCK.warpgroups,
        shared_words=_shared_bytes(depth, columns) // 4,
    )
    return packed.reshape(groups, columns, padded), sums.reshape(groups, columns)


def _round_up(depth: int) -> int:
    return -(-depth // CHUNK) * CHUNK


def _shared_bytes(depth: int, columns: int) -> int:
    """Bytes of a block's shared memory: the rows, and the sums; some align them."""
    padded = _round_up(depth)
    return CHUNK + padded * columns + padded // CHUNK * _SKEW + 4 * columns


def _body(head_rows: HeadRows, depth: int, columns: int, signs: int, memory: Memory) -> None:
    """Copies a matrix, and stores its columns; `signs` re-base four bytes."""
    padded, group, zero = _round_up(depth), ir.block(), constant(0)
    rows = ir.round_up(memory["shared"].shared_address(), CHUNK)
    totals = rows + (padded * columns + padded // CHUNK * _SKEW)
    start = head_rows.offset(group.extend())

    def copy(chunk: Value) -> None:
        row = chunk // (columns // CHUNK)
        to = rows + chunk * CHUNK + row // CHUNK * _SKEW
        with ir.when(row < depth):
            place = row * (head_rows.row - columns) + chunk * CHUNK
            cp_async.copy(to, memory["matrices"].address(start + place.extend()), CHUNK)
        with ir.when(row >= depth):
            ir.store_shared(to, *[constant(signs)] * 4)

    def compute(place: Value) -> None:
        part, quad = divmod(place, columns // 4)
        column = quad * 4
        start = rows + part * (CHUNK * columns + _SKEW) + column
        words = [ir.load_shared(start + i * columns, 1)[0] ^ constant(signs) for i in range(CHUNK)]
        transposed = [ir.transpose_bytes(words[i : i + 4]) for i in range(0, CHUNK, 4)]
        for i, chunk in enumerate(zip(*transposed, strict=True)):
            to = (group * columns + column + i).extend() * padded + (part * CHUNK).extend()
            memory["packed"].store(to, *chunk)
            ones = constant(_ONES)
            total = functools.reduce(
                lambda sum, word: ir.dot_bytes(sum, word, ones, unsigned=False), chunk, zero
            )
            ir.ptx_effect("red.shared.add.u32 [$0], $1;", totals + (column + i) * 4, total)

    _BLOCK.visit(padded * columns // CHUNK, copy)
    _BLOCK.visit(columns, lambda column: ir.store_shared(totals + column * 4, zero))
    cp_async.commit_group()
    cp_async.wait_group(0)
    ir.barrier()
    _BLOCK.visit(padded // CHUNK * (columns // 4), compute)
    ir.barrier()

    def store(column: Value) -> None:
        (total,) = ir.load_shared(totals + column * 4, 1)
        memory["sums"].store((group * columns + column).extend() * 4, total)

    _BLOCK.visit(columns, store)
