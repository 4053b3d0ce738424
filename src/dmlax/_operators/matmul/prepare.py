"""Prepares a right matrix once: packed for every lowering, with its columns' sums."""

from typing import Literal

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import prepared_weights
from dmlax._core.arguments import Rules, aval_of
from dmlax._core.byte_packing import to_int8
from dmlax._core.keywords import name_right_keywords
from dmlax._core.panels import PACKINGS
from dmlax._core.prepared_weights import Packer, Prepared
from dmlax._cpu import library
from dmlax._operators.matmul.plan import (
    MatrixShape,
    Operands,
    ProductPlan,
    check_b_zero_point,
    matrix_shape,
)

_RULES = Rules("prepare_matrix")


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
    SHAPE = MatrixShape
    _NOUN = "matrix"

    @staticmethod
    def from_rows(weights: MatrixShape, rows: Array) -> Array:
        """Returns the matrix of packed rows, of NumPy or JAX, as int8."""
        return rows.swapaxes(-1, -2).reshape(weights.matrix.shape)


prepared_weights.register(PreparedMatrix)


@name_right_keywords
def prepare_matrix(
    b: ArrayLike,
    /,
    *,
    b_zero_point: ArrayLike | None = None,
    packing: Literal["auto", "panels", "rows"] = "rows",
) -> PreparedMatrix:
    """Packs the right matrix of a product and sums its columns, once for many calls.

    Args:
      b: int8 or uint8, (..., K, N) or (K,).
      b_zero_point: of its dtype, one value, or one per column: (N,) or (..., 1, N); default 0.
        A 0 that is known is dropped: to subtract it would take sums of rows.
      packing: the order of the bytes. "rows", the default: a row for each column, which every
        implementation and device reads as it is. "panels": as `native_cpu` multiplies them on x86
        with AVX-512 VNNI or AMX, so that a call packs nothing; others unpack them in every call.
        "auto": panels where this machine reads them, else rows.

    Returns:
      A `PreparedMatrix`, a pytree: use it as `b`, and leave out `b_zero_point`.

    Raises:
      SpecError: code `data_type`, `dimension_count` or `sizes` (BTensor, BZeroPointTensor),
        `value` (a Python or NumPy zero point out of range), `option` (packing).

    DirectML:
      None: the counterpart of a tensor OWNED_BY_DML, packed when the operator is initialised.

    Lowering:
      NumPy for arrays on the host, else plain XLA; every lowering of the matrix products reads the
      result.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> dmlax.prepare_matrix(jnp.ones((768, 64), jnp.int8))
      PreparedMatrix(int8[768,64])
    """
    array = _RULES.to_array("BTensor", b)
    shape = matrix_shape(_RULES, aval_of(array))
    known = f"is {shape}, expected static sizes"
    _RULES.expect(shape.matrix.is_static, "sizes", "BTensor", known)
    _RULES.expect_choice("packing", packing, PACKINGS)
    if packing == "auto":
        packing = "panels" if library.reads_panels() else "rows"
    shape = shape._replace(packing=packing)
    zero_point = to_b_zero_point(_RULES, shape, b_zero_point)
    return PreparedMatrix(PACKER.prepare(shape, array, zero_point), shape)


def to_b_zero_point(rules: Rules, shape: MatrixShape, value: ArrayLike | None) -> Array | None:
    """Converts and checks a right matrix's zero point.

    A constant 0 is dropped: to subtract it would take the sum of every row.
    """
    zero_point = rules.to_parameter("BZeroPointTensor", value, shape.matrix.dtype)
    check_b_zero_point(rules, shape, None if zero_point is None else aval_of(zero_point))
    constant = isinstance(value, int | np.ndarray | np.generic)
    return None if constant and not np.any(value) else zero_point


def to_rows(shape: MatrixShape, matrix: Array) -> Array:
    """Returns a matrix's columns as int8 rows."""
    return to_int8(matrix.reshape(*shape.batch, shape.depth, shape.columns).swapaxes(-1, -2))


def as_rows(plan: ProductPlan, operands: Operands) -> Prepared | None:
    """Returns the call's matrix in rows, if it was prepared."""
    b = operands.b
    return prepared_weights.as_rows(plan.matrix, b) if isinstance(b, Prepared) else None


def as_parameter(x: Array) -> Array:
    """Reshapes one value to (), and keeps any other shape of a parameter."""
    return x.reshape(()) if all(size == 1 for size in x.shape) else x


PACKER = Packer("prepare_matrix", to_rows, as_parameter)
