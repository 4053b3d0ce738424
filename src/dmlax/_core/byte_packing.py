"""Bytes as int8, and four of them packed in a word, which a GPU moves as fast as a byte."""

import functools
import operator
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import float_bits
from dmlax._core.windows import replace_axes

_Bytes = TypeVar("_Bytes", Array, np.ndarray)
_SIGNS = np.int32(-0x7F7F7F80)  # 0x80 four times


def to_int8(x: Array) -> Array:
    """Converts uint8 by subtracting 128, which flips one bit; int8 stays as it is."""
    return x if x.dtype == jnp.int8 else (x ^ np.uint8(128)).astype(np.int8)


def from_int8(x: Array, dtype: np.dtype) -> Array:
    """The inverse of `to_int8`."""
    return x if dtype == jnp.int8 else x.astype(np.uint8) ^ np.uint8(128)


def rebase_of(dtype: np.dtype) -> int:
    """The number that `to_int8` subtracts."""
    return 128 if dtype == jnp.uint8 else 0


def round_up_to_word(count: int) -> int:
    """The next multiple of a word's 4 bytes."""
    return -(-count // 4) * 4


def pad_end(x: Array, count: int, value: Array | None = None, *, axis: int = -1) -> Array:
    """Pads the end of an axis with `count` values, or zeros."""
    edges = replace_axes(((0, 0, 0),) * x.ndim, [axis], [(0, count, 0)])
    filling = x.dtype.type(0) if value is None else value.reshape(())
    return x if isinstance(count, int) and count == 0 else lax.pad(x, filling, edges)


def pack_int8(x: Array) -> Array:
    """Packs the last axis into int32; uint8 is re-based by 128, which is one bit."""
    words = float_bits.bitcast(x.reshape(*x.shape[:-1], x.shape[-1] // 4, 4), jnp.int32)
    return words if x.dtype == jnp.int8 else words ^ _SIGNS


def repeat_byte(byte: Array) -> Array:
    """Packs an int8 four times."""
    return float_bits.bitcast(jnp.full(4, byte, jnp.int8), jnp.int32)


def unpack_int8(words: Array) -> Array:
    """Unpacks the last axis into int8."""
    return float_bits.bitcast(words, jnp.int8).reshape(*words.shape[:-1], 4 * words.shape[-1])


def join_bytes(x: Array) -> Array:
    """Makes uint32 of every four bytes of the last axis, the first lowest.

    Shifts, which XLA fuses with what made the bytes; a bitcast it does not.
    """
    parts = float_bits.bitcast(x, jnp.uint8).astype(jnp.uint32)
    parts = parts.reshape(*x.shape[:-1], x.shape[-1] // 4, 4)
    words: Array = functools.reduce(operator.or_, (parts[..., i] << 8 * i for i in range(4)))
    return words


def pack_bits(array: _Bytes, bits: int) -> _Bytes:
    """Packs integers of 2 or 4 bits, lowest bits first; every row begins with a byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    edges = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % shifts.size)]
    pad: Any = jnp.pad if isinstance(array, Array) else np.pad
    fields: Any = pad(array.astype(np.uint8) & np.uint8((1 << bits) - 1), edges)
    rows: _Bytes = fields.reshape((*fields.shape[:-1], -1, shifts.size)) << shifts
    packed: _Bytes = rows.sum(-1, dtype=np.uint8)
    return packed


def unpack_bits(held: _Bytes, bits: int, count: int, is_signed: bool = False) -> _Bytes:
    """The first integers of every row of packed bytes, as uint8 or int8."""
    if bits < 8:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        fields = (held[..., None] >> shifts) & np.uint8((1 << bits) - 1)
        held = fields.reshape((*held.shape[:-1], held.shape[-1] * shifts.size))[..., :count]
        if is_signed:
            held = (held ^ np.uint8(1 << (bits - 1))).astype(np.int8)
            return held - np.int8(1 << (bits - 1))
    return held.astype(np.int8 if is_signed else np.uint8)
