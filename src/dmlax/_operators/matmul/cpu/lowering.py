"""Matrix products in C++: rows of A times packed panels of B (`matmul.cc`), and `epilogue.cc`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from dmlax._core.arguments import expand_rank, is_static
from dmlax._core.prepared_weights import Prepared
from dmlax._cpu import library
from dmlax._operators.matmul.epilogue import has_column_epilogue
from dmlax._operators.matmul.plan import Operands, ProductPlan
from dmlax._operators.matmul.prepare import as_parameter

_TARGET = "dmlax_matrix_multiply_v1"
_MOST_SIZE = 2**31  # the limit of an axis


def run(plan: ProductPlan, operands: Operands) -> Array:
    """One call, and another for the epilogue unless all rows have the same parameters.

    `vmap` puts its axes before.
    """
    in_one = has_column_epilogue(plan) and (plan.quantized or _is_scaled_by_columns(plan))
    result = _multiply(plan, operands, plan.output.dtype if in_one else np.dtype(np.int32))
    if plan.quantized and not in_one:
        result = _requantize(plan, operands, result)
    elif plan.scaled and not in_one:
        result = _scale(plan, operands, result)
    return result.reshape(plan.output.shape)


def _is_scaled_by_columns(plan: ProductPlan) -> bool:
    """True if the product's kernel scales its sums itself."""
    is_rounded_often = plan.scaled and plan.arithmetic == "float32"
    return is_rounded_often and plan.output.dtype == np.float32


def why_not(plan: ProductPlan | None, platform: str) -> str | None:
    """Refuses what has no size in the program, and sizes beyond the kernels' integers."""
    if why := library.why_not(platform):
        return why
    if plan is None:
        return None
    if not plan.is_static and not _has_symbolic_batch(plan):
        return f"it needs static shapes, and this is {plan}"
    sizes = plan.input.shape[not plan.is_static :] + plan.matrix.matrix.shape
    if max(sizes, default=0) >= _MOST_SIZE:
        return f"a size is {_MOST_SIZE:,} or more"
    return None


def _has_symbolic_batch(plan: ProductPlan) -> bool:
    """True if the first axis of A is the only one without a size."""
    others = (aval for aval in plan.operands[1:] if aval is not None)
    is_known = is_static(plan.input.shape[1:]) and plan.matrix.matrix.is_static
    return is_known and all(aval.is_static for aval in others)


def _multiply(plan: ProductPlan, operands: Operands, dtype: np.dtype) -> Array:
    """(..., M, N): quantized, scaled, or int32 sums."""
    b, matrix, finished = operands.b, plan.matrix, dtype != np.int32
    quantized = finished and plan.quantized
    prepared = isinstance(b, Prepared)
    panels = prepared and matrix.packing == "panels"
    rank = len(plan.batch)
    a = _as_batch(operands.a, plan.input.shape[:-2], rank, (plan.rows, plan.depth))
    sizes = matrix.packed[-2:] if prepared else (plan.depth, plan.columns)
    sums = b.sums[..., None, :] if prepared else None
    if not finished:
        names = ("bias", "a_scale", "b_scale", "output_scale", "output_zero_point")
        operands = operands._replace(**dict.fromkeys(names))
    parameters: list[tuple[Array | None, DTypeLike]] = [
        (_last_axis(operands.a_zero_point), plan.input.dtype),
        (b.zero_point if prepared else operands.b_zero_point, matrix.matrix.dtype),
        (_columns_of_bias(plan, operands.bias), np.int32 if quantized else dtype),
        (operands.a_scale, np.float32),
        (operands.b_scale, np.float32),
        (operands.output_scale, np.float32),
        (operands.output_zero_point, dtype if quantized else np.uint8),
    ]
    output = jax.ShapeDtypeStruct((*plan.batch, plan.rows, plan.columns), dtype)
    call = jax.ffi.ffi_call(_TARGET, output, vmap_method="expand_dims")
    result: Array = call(
        a,
        _as_batch(b.packed if prepared else b, matrix.batch, rank, sizes),
        *(_as_values(x, kind, rank) for x, kind in ((sums, np.int32), *parameters)),
        transposed=prepared and not panels,
        panels=panels,
        b_unsigned=matrix.matrix.dtype == jnp.uint8,
        exact=plan.arithmetic == "exact",
    )
    return result


def _requantize(plan: ProductPlan, operands: Operands, sums: Array) -> Array:
    """(..., M, N) sums to bytes, of any parameters."""
    scales = operands.a_scale, operands.b_scale, operands.output_scale
    zero_point = operands.output_zero_point
    zero_point = np.zeros((), plan.output.dtype) if zero_point is None else zero_point
    parameters = [_expand(x, sums.ndim) for x in (*scales, zero_point)]
    return _finish(
        "dmlax_requantize_sums_v1", plan, sums, *parameters, _bias(plan, operands, np.int32)
    )


def _scale(plan: ProductPlan, operands: Operands, sums: Array) -> Array:
    """(..., M, N) sums to floats."""
    scales = (_expand(x, sums.ndim) for x in (operands.a_scale, operands.b_scale))
    bias = _bias(plan, operands, plan.output.dtype)
    has_bias = operands.bias is not None
    return _finish("dmlax_scale_sums_v1", plan, sums, *scales, bias, has_bias=has_bias)


def _finish(
    target: str, plan: ProductPlan, sums: Array, *operands: Array, **options: bool
) -> Array:
    output = jax.ShapeDtypeStruct(sums.shape, plan.output.dtype)
    call = jax.ffi.ffi_call(target, output, vmap_method="expand_dims")
    result: Array = call(sums, *operands, exact=plan.arithmetic == "exact", **options)
    return result


def _bias(plan: ProductPlan, operands: Operands, dtype: DTypeLike) -> Array:
    """The bias as it broadcasts to (..., M, N); an absent one is 0."""
    rank = len(plan.batch) + 2
    if operands.bias is None:
        return jnp.zeros((1,) * rank, dtype)
    expanded: Array = expand_rank(plan.as_output(operands.bias), rank)
    return expanded


def _expand(parameter: Any, rank: int) -> Array:
    expanded: Array = expand_rank(as_parameter(parameter), rank, scalars=True)
    return expanded


def _as_batch(x: Array, batch: tuple[int, ...], rank: int, sizes: tuple[int, ...]) -> Array:
    """Reshapes a matrix to (..., rows, columns) with as many batch axes as the output."""
    return x.reshape((1,) * (rank - len(batch)) + batch + sizes)


def _last_axis(parameter: Array | None) -> Array | None:
    """(..., M, 1) to (..., 1, M)."""
    if parameter is None or parameter.ndim < 2:
        return parameter
    return jnp.swapaxes(parameter, -1, -2)


def _as_values(parameter: Array | None, dtype: DTypeLike, rank: int) -> Array:
    """Reshapes one value, (N,) or (..., 1, N) to (..., count); an absent one has none."""
    if parameter is None:
        return jnp.zeros((1,) * rank + (0,), dtype)
    batch = parameter.shape[:-2] if parameter.ndim > 1 else ()
    count = parameter.shape[-1] if parameter.ndim else 1
    batch = batch[max(len(batch) - rank, 0) :]
    return parameter.reshape((1,) * (rank - len(batch)) + batch + (count,))


def _columns_of_bias(plan: ProductPlan, bias: Array | None) -> Array | None:
    """A bias that is one value or one per column, as (N,)."""
    return None if bias is None else jnp.broadcast_to(bias.reshape(-1), (plan.columns,))
