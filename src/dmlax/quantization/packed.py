"""Weights of few bits, two or four in a byte."""

import functools
import math
from dataclasses import dataclass
from typing import Self

import jax
import numpy as np
from jax import Array

from dmlax._core.byte_packing import pack_bits, unpack_bits


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["held"],
    meta_fields=["shape", "dtype", "bits"],
)
@dataclass(frozen=True, eq=False)
class PackedWeights:
    """Integers of 2 to 4 bits, packed.

    Attributes:
      held: their bytes, uint8 of one axis.
      shape: of the integers.
      dtype: int8 or uint8, of the integers that a call unpacks.
      bits: 2 or 4, of each.
    """

    held: Array
    shape: tuple[int, ...]
    dtype: np.dtype
    bits: int

    @classmethod
    def pack(cls, values: Array, bits: int) -> Self:
        """Packs the integers of 2, 3 or 4 bits."""
        stored = 2 if bits == 2 else 4
        return cls(pack_bits(values.reshape(-1), stored), values.shape, values.dtype, stored)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(self.held.nbytes)

    def unpack(self) -> Array:
        """The integers."""
        signed = np.dtype(self.dtype) == np.int8
        return unpack_bits(self.held, self.bits, math.prod(self.shape), signed).reshape(self.shape)
