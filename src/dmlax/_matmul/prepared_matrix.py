"""PreparedMatrix: a packed matrix as a pytree, whose static part is plain values."""

import functools
import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import compat
from dmlax._core.arguments import Aval, Rules
from dmlax._core.host_arrays import are_equal, to_device, to_host
from dmlax._matmul.plan import MatrixShape

VERSION = 1  # of the packed form; another one must not read it

_RULES = Rules("PreparedMatrix")


class Prepared(NamedTuple):
    """The arrays of a prepared matrix."""

    packed: Array
    """int8 (..., N, K): a row for each column, uint8 re-based by 128."""
    sums: Array
    """int32 (..., N): the sum of each packed row."""
    zero_point: Array | None
    """Of the matrix's dtype, () or broadcasting to (..., 1, N); None is 0."""


@jax.tree_util.register_pytree_with_keys_class
class PreparedMatrix:
    """A packed matrix, made by `prepare_matrix`; use it as the `b` of a matrix product.

    A pytree whose leaves are its arrays. Everything else is static, so that it stacks, scans,
    vmaps, jits, exports and saves. Stacked, it still has the dtype and the shape of one matrix.

    Two are equal if their static parts are, and their arrays element by element. Like an array it
    has no hash; `jax.tree.structure` gives a static part that has one.
    """

    __module__ = "dmlax"  # the path that a pickle holds
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, arrays: Prepared, matrix_shape: MatrixShape) -> None:
        self.arrays = arrays
        self.matrix_shape = matrix_shape

    @property
    def packed(self) -> Array:
        """The columns that every implementation reads, of int8 and of shape (..., N, K)."""
        return self.arrays.packed

    @property
    def sums(self) -> Array:
        """The sum of each column, of int32 and of shape (..., N)."""
        return self.arrays.sums

    @property
    def zero_point(self) -> Array | None:
        """The matrix's zero point, of its dtype, one value or one per column; None is 0."""
        return self.arrays.zero_point

    @property
    def dtype(self) -> np.dtype:
        """The matrix's dtype, int8 or uint8."""
        return self.matrix_shape.matrix.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The matrix's shape."""
        return self.matrix_shape.matrix.shape

    def unpack(self) -> Array:
        """Returns the matrix that was prepared, bit for bit."""
        matrix: Array = _unpack(self.matrix_shape, self.packed)
        return matrix

    def tree_flatten_with_keys(self) -> tuple[Any, tuple[Any, ...]]:
        """The arrays by name; everything else is static."""
        keys = map(jax.tree_util.GetAttrKey, Prepared._fields)
        return tuple(zip(keys, self.arrays, strict=True)), _static(self.matrix_shape)

    def tree_flatten(self) -> tuple[Prepared, tuple[Any, ...]]:
        """The arrays; everything else is static."""
        return self.arrays, _static(self.matrix_shape)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Any) -> "PreparedMatrix":
        """The inverse of `tree_flatten`."""
        return cls(Prepared(*arrays), _matrix_shape(static))

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and NumPy arrays, so that a pickle names no private module."""
        arrays = {name: to_host(leaf) for name, leaf in self.arrays._asdict().items()}
        return {"static": _static(self.matrix_shape), **arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        static = state.pop("static")
        self.matrix_shape = _matrix_shape(static)
        self.arrays = Prepared(**{name: to_device(leaf) for name, leaf in state.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PreparedMatrix):
            return NotImplemented
        same = self.matrix_shape == other.matrix_shape
        return same and all(map(are_equal, self.arrays, other.arrays))

    def __repr__(self) -> str:
        return f"PreparedMatrix({self.matrix_shape})"


@functools.lru_cache(maxsize=4096)
def _static(shape: MatrixShape) -> tuple[Any, ...]:
    """A shape as plain values: they outlive a move of any class, in a pickle or an export."""
    return VERSION, shape.matrix.dtype.name, shape.matrix.shape


@functools.lru_cache(maxsize=4096)
def _matrix_shape(static: tuple[Any, ...]) -> MatrixShape:
    """Reads what `_static` gave; refuses another version's."""
    version, dtype, sizes = static
    remedy = "prepare the matrix again with this version of dmlax"
    _RULES.expect(
        version == VERSION, "option", "version", f"is {version}, expected {VERSION}: {remedy}"
    )
    return MatrixShape(Aval(np.dtype(dtype), sizes))


def _encode(static: tuple[Any, ...]) -> bytes:
    return json.dumps(static).encode()


def _decode(data: bytes) -> tuple[Any, ...]:
    version, dtype, sizes = json.loads(bytes(data))
    static = version, dtype, tuple(sizes)
    _matrix_shape(static)
    return static


# JAX shows this name where it cannot load an export, which is before dmlax is imported.
compat.serialise_pytree(
    PreparedMatrix, "dmlax.PreparedMatrix, which `import dmlax` defines", _encode, _decode
)


@functools.partial(jax.jit, static_argnums=0)
def _unpack(shape: MatrixShape, packed: Array) -> Array:
    matrix = jnp.swapaxes(packed, -1, -2)
    if shape.matrix.dtype == jnp.uint8:
        matrix = lax.bitcast_convert_type(matrix, jnp.uint8) ^ jnp.uint8(128)
    return matrix.reshape(shape.matrix.shape)
