"""Integers of 2 and 4 bits, several in a byte: every row of the last axis begins with a byte."""

import functools
import json
import math
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core import compat
from dmlax._core.byte_packing import pack_bits, unpack_bits
from dmlax.onnx.operators.values import NARROW, bits_of


def packed_shape(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The shape of the bytes of an array."""
    *rows, count = shape or (1,)
    return *rows, -(-count * bits_of(dtype) // 8)


def to_bytes(array: np.ndarray) -> np.ndarray:
    """Packs an array, lowest bits first; wider dtypes keep their bytes."""
    bits = bits_of(array.dtype)
    if bits >= 8:
        flat = np.ascontiguousarray(array).reshape(array.shape or (1,))
        return np.asarray(flat.view(np.uint8))
    return pack_bits(array.reshape(array.shape or (1,)), bits)


def from_bytes(held: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The inverse of `to_bytes`."""
    if dtype.name not in NARROW:
        return held.view(dtype).reshape(shape)
    fields = unpack_bits(held, bits_of(dtype), (shape or (1,))[-1], dtype.name.startswith("int"))
    return np.asarray(fields.astype(dtype).reshape(shape))


_Static = tuple[tuple[int, ...], np.dtype]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["held"], meta_fields=["shape", "dtype"]
)
@dataclass(eq=False, repr=False)
class PackedIntegers:
    """A param of integers of 2 or 4 bits: its bytes, on the device."""

    held: Array
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def pack(cls, array: np.ndarray) -> Self:
        """Packs an array of NumPy."""
        return cls(jax.device_put(to_bytes(array)), array.shape, array.dtype)

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of integers."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.held.nbytes)

    def unpack(self) -> Array:
        """The integers, in an array of their dtype."""
        count = self.shape[-1] if self.shape else 1
        fields = unpack_bits(self.held, bits_of(self.dtype), count, self.is_signed)
        return fields.reshape(self.shape).astype(self.dtype)

    @property
    def is_signed(self) -> bool:
        """True for two's complement."""
        return self.dtype.name.startswith("int")

    def to_host(self) -> np.ndarray:
        """The array of NumPy that was packed."""
        return from_bytes(np.asarray(self.held), self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"PackedIntegers({self.dtype.name}[{','.join(map(str, self.shape))}])"


def _encode(static: _Static) -> bytes:
    """Writes the static part of an export."""
    shape, dtype = static
    return json.dumps((shape, dtype.name)).encode()


def _decode(data: bytes) -> _Static:
    """Reads the static part of an export."""
    shape, name = json.loads(bytes(data))
    return tuple(shape), np.dtype(getattr(jnp, name))


compat.serialise_pytree(
    PackedIntegers, "dmlax.onnx.PackedIntegers, which `import dmlax.onnx` defines", _encode, _decode
)
