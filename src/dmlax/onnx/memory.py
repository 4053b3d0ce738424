"""Memory of the tensors of a file: JAX takes it for params, and copies nothing."""

import mmap

import jax
import numpy as np

_ALIGNMENT = 64  # JAX shares such memory on a CPU
_PIECE = 1 << 24  # bytes that are in both places while memory moves


class _Memory(np.ndarray):
    """The bytes of one tensor, which nobody else holds or writes."""


def allocate(count: int) -> np.ndarray:
    """Bytes for one tensor."""
    memory = np.empty(count + _ALIGNMENT, np.uint8).view(_Memory)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + count].view(np.ndarray)


def move(raw: memoryview, whole: mmap.mmap) -> np.ndarray:
    """Moves bytes out of a mapping, whose pages are freed: it is private, and read once."""
    source, target = np.frombuffer(raw, np.uint8), allocate(len(raw))
    start = source.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    for first in range(0, len(raw), _PIECE):
        last = min(first + _PIECE, len(raw))
        target[first:last] = source[first:last]
        begin = -(-(start + first) // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (start + last) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > begin and hasattr(mmap, "MADV_DONTNEED"):
            whole.madvise(mmap.MADV_DONTNEED, begin, end - begin)
    return target


def to_device(array: np.ndarray) -> jax.Array:
    """Gives an array to JAX, in place if a file was read into its memory.

    Other arrays may be the caller's, or parts of a larger one. `jnp.array` would compile a program
    for every shape.
    """
    held = array
    if not _is_own(array):
        held = allocate(array.nbytes).view(array.dtype).reshape(array.shape)
        held[...] = array
    on_device: jax.Array = jax.device_put(held)
    return on_device


def _is_own(array: np.ndarray) -> bool:
    base: object = array
    while isinstance(base, np.ndarray) and not isinstance(base, _Memory):
        base = base.base
    return isinstance(base, _Memory) and array.flags.c_contiguous
