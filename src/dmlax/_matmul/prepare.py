"""Prepares a right matrix once: packed for every lowering, with its columns' sums."""

from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core import compat, dispatch
from dmlax._core.arguments import Rules, aval_of
from dmlax._core.byte_packing import to_int8
from dmlax._core.host_arrays import is_concrete, is_on_host
from dmlax._core.keywords import name_right_keywords
from dmlax._core.panels import PACKINGS, pack_panels, unpack_panels
from dmlax._core.prepared_weights import Prepared, constants
from dmlax._cpu import library
from dmlax._matmul.plan import (
    FIELDS,
    MatrixShape,
    Product,
    ProductPlan,
    check_b_zero_point,
    matrix_shape,
)
from dmlax._matmul.prepared_matrix import PreparedMatrix

_RULES = Rules("prepare_matrix")
_WHEN = "packed whenever the program runs; outside of one, once, and on the host by NumPy"


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
    array = _RULES.to_array(FIELDS.b, b)
    shape = matrix_shape(_RULES, aval_of(array))
    known = f"is {shape}, expected static sizes"
    _RULES.expect(shape.matrix.is_static, "sizes", FIELDS.b, known)
    _RULES.expect_choice("packing", packing, PACKINGS)
    if packing == "auto":
        packing = "panels" if library.reads_panels() else "rows"
    shape = shape._replace(packing=packing)
    zero_point = to_b_zero_point(_RULES, shape, b_zero_point)
    if is_concrete(zero_point) and not np.any(zero_point):
        zero_point = None
    if is_on_host(array) and (zero_point is None or is_on_host(zero_point)):
        packed = pack(shape, *jax.tree.map(np.asarray, (array, zero_point)))
        return PreparedMatrix(jax.device_put(jax.tree.map(np.array, packed)), shape)
    return PreparedMatrix(_pack(shape, array, zero_point), shape)


def to_b_zero_point(rules: Rules, shape: MatrixShape, value: Any) -> Array | np.ndarray | None:
    """Converts and checks a right matrix's zero point.

    A constant 0 is dropped: to subtract it would take the sum of every row.
    """
    zero_point = rules.to_parameter(FIELDS.b_zero_point, value, shape.matrix.dtype)
    check_b_zero_point(rules, shape, None if zero_point is None else aval_of(zero_point))
    constant = isinstance(value, int | np.ndarray | np.generic)
    return None if constant and not np.any(value) else zero_point


def pack(shape: MatrixShape, matrix: Any, zero_point: Any) -> Prepared:
    """Packs a matrix, of NumPy or JAX: a row for each column, or panels."""
    matrix = matrix.reshape(*shape.batch, shape.depth, shape.columns)
    packed = to_int8(matrix.swapaxes(-1, -2))
    sums = packed.sum(axis=-1, dtype=np.int32)
    if shape.packing == "panels":
        packed = pack_panels(shape.panels, packed)
    return Prepared(packed, sums, None if zero_point is None else as_parameter(zero_point))


def pack_constant(shape: MatrixShape, matrix: Any, zero_point: Array | None) -> Prepared:
    """Packs a matrix that a program holds: to fold the sums of its columns takes XLA seconds."""
    packed = constants(pack(shape, np.asarray(matrix), None))
    return packed._replace(zero_point=None if zero_point is None else as_parameter(zero_point))


class Preparation(NamedTuple):
    """A matrix that a program packs, which `explain` finds there."""

    shape: MatrixShape

    def __repr__(self) -> str:
        return f"prepare_matrix({self.shape})"

    def explain(self) -> dispatch.Explanation:
        """Plain XLA everywhere."""
        choices = (dispatch.Choice(platform, "xla", {}) for platform in dispatch.PLATFORMS)
        return dispatch.Explanation("prepare_matrix", str(self.shape), tuple(choices), (_WHEN,))


def _pack_in_program(shape: MatrixShape, matrix: Array, zero_point: Array | None) -> Prepared:
    return compat.label(pack(shape, matrix, zero_point), Preparation(shape))


_pack_in_program.__name__ = "prepare_matrix"  # as jaxprs and profiles show it
_pack = jax.jit(_pack_in_program, static_argnums=0)


def as_rows(plan: ProductPlan, operands: Product) -> Prepared | None:
    """Returns the call's matrix in rows, if it was prepared."""
    b = operands.b
    if not isinstance(b, Prepared):
        return None
    if plan.matrix.packing == "rows":
        return b
    return b._replace(packed=unpack_panels(plan.matrix.panels, b.packed))


def as_parameter(x: Array) -> Array:
    """Reshapes one value to (), and keeps any other shape of a parameter."""
    return x.reshape(()) if all(size == 1 for size in x.shape) else x
