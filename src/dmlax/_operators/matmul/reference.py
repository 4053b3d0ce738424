"""The definition of the matrix products, in a dozen lines of plain JAX."""

import jax.numpy as jnp
from jax import Array, lax

from dmlax._core.arguments import expand_rank
from dmlax._core.byte_packing import rebase_of
from dmlax._operators.matmul.epilogue import as_int32, epilogue
from dmlax._operators.matmul.plan import Operands, ProductPlan
from dmlax._operators.matmul.prepare import as_rows


def run(plan: ProductPlan, operands: Operands) -> Array:
    """`jnp.matmul` of int32 less the zero points, then bias and requantization."""
    rank = len(plan.batch) + 2
    a = expand_rank(jnp.atleast_2d(operands.a).astype(jnp.int32), rank)
    b, zero_point = _matrix(plan, operands)
    a -= as_int32(operands.a_zero_point, rank)
    b = expand_rank(b, rank) - as_int32(zero_point, rank)
    sums = jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
    return epilogue(plan, operands)(sums).reshape(plan.output.shape)


def _matrix(plan: ProductPlan, operands: Operands) -> tuple[Array, Array | None]:
    """The right matrix (..., K, N) as int32, and its zero point."""
    b, matrix, prepared = operands.b, plan.matrix, as_rows(plan, operands)
    if prepared is not None:
        values = jnp.swapaxes(prepared.packed, -1, -2).astype(jnp.int32)
        return values + rebase_of(matrix.matrix.dtype), prepared.zero_point
    return b.reshape(*matrix.batch, matrix.depth, matrix.columns).astype(
        jnp.int32
    ), operands.b_zero_point
