"""Matrix products in plain XLA: int8 by int8 into int32, with uint8 shifted by 128.

Integer sums are unique, so the operands are re-based to int8 and multiplied as they are, and the
zero points' terms are added back.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import choice, compat
from dmlax._core.arguments import Aval, expand_rank, structs
from dmlax._core.byte_packing import pad_end, rebase_of, to_int8
from dmlax._operators.matmul.epilogue import as_int32, epilogue
from dmlax._operators.matmul.plan import Operands, ProductPlan
from dmlax._operators.matmul.prepare import as_parameter, as_rows

# CUDA's int8 product is wrong for lengths that 4 does not divide; 16 bytes is what it loads.
_CONTRACTION = 16


def run(plan: ProductPlan, operands: Operands) -> Array:
    """One product, padded on CUDA."""
    unpadded = {platform: functools.partial(_multiply, plan, False) for platform in ("cpu", "tpu")}
    padded = functools.partial(_multiply, plan, True)
    return choice.by_platform(operands, structs(plan.output), padded, unpadded)


def to_float_tangent(plan: ProductPlan, operands: Operands, tangents: Operands) -> Array:
    """The derivative in both scales and the bias: sums * d(a_scale * b_scale) + d(bias)."""
    unscaled: dict[str, Any] = {"a_scale": None, "b_scale": None, "bias": None}
    sums_plan = dataclasses.replace(
        plan,
        operands=plan.operands._replace(**unscaled),
        output=Aval(np.dtype(np.int32), plan.output.shape),
    )
    sums = run(sums_plan, operands._replace(**unscaled))
    sums = sums.reshape(*plan.batch, plan.rows, plan.columns).astype(jnp.float32)

    def expand(parameter: Array) -> Any:
        return expand_rank(as_parameter(parameter), sums.ndim)

    factor = expand(tangents.a_scale) * expand(operands.b_scale)
    factor += expand(operands.a_scale) * expand(tangents.b_scale)
    total = sums * factor
    if operands.bias is not None:
        total += plan.as_output(tangents.bias).astype(jnp.float32)
    tangent: Array = total.reshape(plan.output.shape).astype(plan.output.dtype)
    return tangent


class _Matrix(NamedTuple):
    """The right matrix as int8."""

    values: Array  # (..., K, N), or where it is packed (..., N, K)
    packed: bool
    sums: Array  # int32 (..., 1, N), of its columns
    zero_point: Array | None  # int32, of these values; None is 0


def _multiply(plan: ProductPlan, padded: bool, operands: Operands) -> Array:
    a = to_int8(jnp.atleast_2d(operands.a))
    b = _matrix(plan, operands)
    sums = _multiply_padded(plan, a, b) if padded else _multiply_batch(plan, a, b)
    a_zero = as_int32(operands.a_zero_point, sums.ndim) - rebase_of(plan.input.dtype)
    sums -= a_zero * expand_rank(b.sums, sums.ndim)
    if b.zero_point is not None:
        row_sums = expand_rank(a.sum(axis=-1, keepdims=True, dtype=jnp.int32), sums.ndim)
        sums -= (row_sums - plan.depth * a_zero) * b.zero_point
    output: Array = epilogue(plan, operands)(sums).reshape(plan.output.shape)
    return output


def _matrix(plan: ProductPlan, operands: Operands) -> _Matrix:
    b, matrix, prepared = operands.b, plan.matrix, as_rows(plan, operands)
    rebase = rebase_of(matrix.matrix.dtype)
    zero_point: Array | None = operands.b_zero_point if prepared is None else prepared.zero_point
    rank = len(plan.batch) + 2
    zero = None if zero_point is None and not rebase else as_int32(zero_point, rank) - rebase
    if prepared is not None:
        return _Matrix(prepared.packed, True, prepared.sums[..., None, :], zero)
    values = to_int8(b.reshape(*matrix.batch, matrix.depth, matrix.columns))
    return _Matrix(values, False, values.sum(axis=-2, keepdims=True, dtype=jnp.int32), zero)


def _multiply_padded(plan: ProductPlan, a: Array, b: _Matrix) -> Array:
    compat.warn_without_autotuning()
    missing = -plan.depth % _CONTRACTION
    values = _pad(b.values, missing, b.values.ndim - (1 if b.packed else 2))
    sums = _multiply_batch(plan, _pad(a, missing, a.ndim - 1), b._replace(values=values))
    # CUDA's short products lose a constant that is added to them, if they see it.
    barred: Array = lax.optimization_barrier(sums)
    return barred


def _pad(x: Array, count: int, axis: int) -> Array:
    """Zeros after an axis; a symbolic count may be 0."""
    return x if isinstance(count, int) and count == 0 else pad_end(x, count, axis=axis)


def _multiply_batch(plan: ProductPlan, a: Array, b: _Matrix) -> Array:
    """int32 (..., M, N) of int8 products."""
    if all(isinstance(size, int) and size == 1 for size in plan.matrix.batch):
        values = b.values.reshape(b.values.shape[-2:])  # a batch of one would miss the fast path
        contracted = ((a.ndim - 1,), (1 if b.packed else 0,)), ((), ())
        sums = lax.dot_general(a, values, contracted, preferred_element_type=jnp.int32)
        return sums.reshape(*plan.batch, plan.rows, plan.columns)
    rank = len(plan.batch)
    left = jnp.broadcast_to(a, (*plan.batch, *a.shape[-2:]))
    right = jnp.broadcast_to(b.values, (*plan.batch, *b.values.shape[-2:]))
    batch = tuple(range(rank))
    grouped = ((rank + 1,), (rank + 1 if b.packed else rank,)), (batch, batch)
    return lax.dot_general(left, right, grouped, preferred_element_type=jnp.int32)
