"""The kernel that joins rows of several matrices side by side, 16 bytes at a time.

XLA joins bytes one by one.
"""

import functools
from collections.abc import Sequence

import jax
import jax.custom_batching
import jax.numpy as jnp
from jax import Array

from dmlax._cuda import capability, ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Pointer, Value
from dmlax._cuda.launch import ThreadBlock, launch

_BLOCK = ThreadBlock(4)
_BLOCKS = 4  # of a multiprocessor


def concatenate(*matrices: Array) -> Array:
    """(rows, sum of columns) of bytes (rows, columns), whose columns are whole chunks."""
    function = jax.custom_batching.custom_vmap(_concatenate)

    @function.def_vmap
    def batched(size: int, mapped: list[bool], *matrices: Array) -> tuple[Array, bool]:
        whole = [
            x if each else jnp.broadcast_to(x, (size, *x.shape))
            for x, each in zip(matrices, mapped, strict=True)
        ]
        found = concatenate(*(x.reshape(-1, x.shape[-1]) for x in whole))
        return found.reshape(size, -1, found.shape[-1]), True

    found: Array = function(*matrices)
    return found


def _concatenate(*matrices: Array) -> Array:
    rows, chunks = matrices[0].shape[0], [x.shape[1] // CHUNK for x in matrices]
    count = rows * sum(chunks)
    blocks = min(-(-count // _BLOCK.threads), _BLOCKS * capability.multiprocessors())
    (found,) = launch(
        "dmlax_concatenate",
        functools.partial(_body, chunks, count, blocks * _BLOCK.threads),
        {f"matrix_{i}": x.reshape(-1) for i, x in enumerate(matrices)},
        {"output": jax.ShapeDtypeStruct((count * CHUNK,), matrices[0].dtype)},
        blocks=blocks,
        warpgroups=_BLOCK.warpgroups,
        shared_words=4,
    )
    return found.reshape(rows, -1)


def _body(
    chunks: Sequence[int],
    count: int,
    threads: int,
    shared: Pointer,
    output: Pointer,
    **given: Pointer,
) -> None:
    """Copies each so many chunks of the output."""

    def copy(chunk: Value) -> Value:
        words = ir.load_read_only_bytes(source(chunk), CHUNK)
        output.store(chunk.extend() * CHUNK, *words)
        return chunk + threads

    def source(chunk: Value) -> Value:
        """The address of what a chunk of the output is a copy of."""
        row = chunk // sum(chunks)
        within, address, start = chunk - row * sum(chunks), None, 0
        for matrix, size in zip(given.values(), chunks, strict=True):
            here = matrix.address((row * size + (within - start)).extend() * CHUNK)
            address = here if address is None else ir.select(within >= start, here, address)
            start += size
        assert address is not None
        return address

    first = ir.block() * _BLOCK.threads + ir.thread()
    ir.while_loop(first, lambda chunk: chunk < count, copy)
