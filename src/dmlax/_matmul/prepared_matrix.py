"""PreparedMatrix: a packed matrix as a pytree."""

import functools
from typing import Any

import jax
import numpy as np
from jax import Array

from dmlax._core import prepared_weights
from dmlax._core.arguments import Aval
from dmlax._core.byte_packing import from_int8
from dmlax._core.panels import Packing, unpack_panels
from dmlax._matmul.plan import MatrixShape


class PreparedMatrix(prepared_weights.PreparedWeights[MatrixShape]):
    """A packed matrix, made by `prepare_matrix`; use it as the `b` of a matrix product.

    A pytree whose leaves are its arrays: `packed`, int8 (..., N, K), a row for each column, or
    panels; `sums`, int32 (..., N); `zero_point`, None or of the matrix's dtype, () or broadcasting
    to (..., 1, N). Everything else is static, so that it stacks, scans, vmaps, jits, exports and
    saves. Stacked, it still has the dtype and the shape of one matrix.

    Two are equal if their static parts are, and their arrays element by element. Like an array it
    has no hash; `jax.tree.structure` gives a static part that has one.
    """

    __module__ = "dmlax"  # the path that a pickle holds

    VERSION = 2
    _NOUN = "matrix"

    @property
    def dtype(self) -> np.dtype:
        """The matrix's dtype, int8 or uint8."""
        return self.weights.matrix.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The matrix's shape."""
        return self.weights.matrix.shape

    @property
    def packing(self) -> Packing:
        """The order of the bytes of `packed`: "rows" or "panels"."""
        return self.weights.packing

    def unpack(self) -> Array:
        """Returns the matrix that was prepared, bit for bit."""
        matrix: Array = _unpack(self.weights, self.packed)
        return matrix

    @staticmethod
    def unpack_rows(weights: MatrixShape, packed: Any) -> Any:
        """The inverse of packing."""
        if weights.packing == "panels":
            packed = unpack_panels(weights.panels, packed)
        matrix = packed.swapaxes(-1, -2).reshape(weights.matrix.shape)
        return from_int8(matrix, weights.matrix.dtype)

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def to_plain(weights: MatrixShape) -> tuple[Any, ...]:
        """The dtype's name, the sizes and the packing."""
        return weights.matrix.dtype.name, weights.matrix.shape, weights.packing

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def from_plain(dtype: str, sizes: tuple[int, ...], packing: Packing) -> MatrixShape:
        """The inverse of `to_plain`."""
        return MatrixShape(Aval(np.dtype(dtype), sizes), packing)


prepared_weights.register(PreparedMatrix)
_unpack = jax.jit(PreparedMatrix.unpack_rows, static_argnums=0)
