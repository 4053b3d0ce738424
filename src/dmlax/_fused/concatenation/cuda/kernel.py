"""The kernel that joins rows of several matrices side by side, 16 bytes at a time.

XLA joins bytes one by one.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability, ir, tuning
from dmlax._cuda.batching import call_merged
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Memory, Value
from dmlax._cuda.launch import ThreadBlock, launch

_BLOCK = ThreadBlock(4)


def concatenate(*matrices: Array) -> Array:
    """(rows, sum of columns) of bytes (rows, columns), whose columns are whole chunks."""

    def merge(size: int, mapped: Sequence[bool], matrices: tuple[Array, ...]) -> Array:
        whole = (
            x if varies else jnp.broadcast_to(x, (size, *x.shape))
            for x, varies in zip(matrices, mapped, strict=True)
        )
        rows = concatenate(*(x.reshape(-1, x.shape[-1]) for x in whole))
        return rows.reshape(size, -1, rows.shape[-1])

    return call_merged(_concatenate, merge, *matrices)


def _concatenate(*matrices: Array) -> Array:
    rows, chunks = matrices[0].shape[0], [x.shape[1] // CHUNK for x in matrices]
    count = rows * sum(chunks)
    blocks = min(-(-count // _BLOCK.threads), tuning.JOINING_BLOCKS * capability.multiprocessors())
    (joined,) = launch(
        "dmlax_concatenate",
        functools.partial(_body, chunks, count, blocks * _BLOCK.threads),
        {f"matrix_{i}": x.reshape(-1) for i, x in enumerate(matrices)},
        {"output": jax.ShapeDtypeStruct((count * CHUNK,), matrices[0].dtype)},
        blocks=blocks,
        warpgroups=_BLOCK.warpgroups,
        shared_words=4,
    )
    return joined.reshape(rows, -1)


def _body(chunks: Sequence[int], count: int, threads: int, memory: Memory) -> None:
    """Copies every chunk of the output whose number is a multiple of `threads` further on."""
    matrices = [memory[f"matrix_{i}"] for i in range(len(chunks))]

    def copy(chunk: Value) -> Value:
        words = ir.load_read_only_bytes(source(chunk), CHUNK)
        memory["output"].store(chunk.extend() * CHUNK, *words)
        return chunk + threads

    def source(chunk: Value) -> Value:
        """The address of what a chunk of the output is a copy of."""
        row, within = divmod(chunk, sum(chunks))
        address, start = None, 0
        for matrix, size in zip(matrices, chunks, strict=True):
            here = matrix.address((row * size + (within - start)).extend() * CHUNK)
            address = here if address is None else ir.select(within >= start, here, address)
            start += size
        assert address is not None
        return address

    first = ir.block() * _BLOCK.threads + ir.thread()
    ir.while_loop(first, lambda chunk: chunk < count, copy)
