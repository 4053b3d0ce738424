"""Channels four at a time: a GPU moves a word as fast as a byte."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_SIGNS = np.int32(-0x7F7F7F80)  # 0x80 four times


def whole_words(count: int) -> int:
    """Bytes, up to a multiple of 4."""
    return -(-count // 4) * 4


def pad_end(x: Array, count: int, value: Array | None = None, *, axis: int = -1) -> Array:
    """An axis longer by `count` values, or zeros."""
    edges = [(0, 0, 0)] * x.ndim
    edges[axis] = (0, count, 0)
    filling = x.dtype.type(0) if value is None else value.reshape(())
    return lax.pad(x, filling, edges) if count else x


def to_int8_words(x: Array) -> Array:
    """int32 of four bytes of the last axis each; uint8 re-based by 128, which is one bit."""
    words = lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // 4, 4), jnp.int32)
    return words if x.dtype == jnp.int8 else words ^ _SIGNS


def word_of(byte: Array) -> Array:
    """Four times an int8, as int32."""
    return lax.bitcast_convert_type(jnp.full(4, byte, jnp.int8), jnp.int32)


def as_bytes(words: Array) -> Array:
    """int8 of the last axis' words."""
    return lax.bitcast_convert_type(words, jnp.int8).reshape(*words.shape[:-1], 4 * words.shape[-1])
