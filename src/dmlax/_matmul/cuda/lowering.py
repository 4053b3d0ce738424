"""Matrix products on Hopper GPUs, requantized in registers where each row does alike.

The kernel is in `kernel`, which is imported only where it is lowered.
"""

import functools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.custom_batching
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import Aval, expand_rank
from dmlax._core.byte_packing import pad_end, rebase_of
from dmlax._core.prepared_weights import Prepared
from dmlax._cuda import capability
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.sum_types import Addend, SumTypes
from dmlax._matmul.cuda.problem import PER_COLUMN, MatmulProblem, Matrices
from dmlax._matmul.epilogue import as_int32, epilogue, has_column_epilogue
from dmlax._matmul.plan import MatrixShape, Product, ProductPlan
from dmlax._matmul.prepare import as_parameter, as_rows, pack

_SIZE_LIMIT = 2**31  # of rows, and of bytes of the right matrices
_PADDED_OUTPUTS = 2**22  # so many outputs are stored in whole chunks of columns, which is faster


def why_not(plan: ProductPlan | None, platform: str) -> str | None:
    """The sentence that says why no kernel takes the plan, or None."""
    if why := capability.why_not(platform):
        return why
    if plan is None:
        return None
    if not plan.is_static:
        return f"it needs static shapes, and this is {plan}"
    if plan.depth == 0 and plan.output.size > 0:
        return "it sums no products"
    problem = MatmulProblem.of(plan, None)
    if max(problem.rows, problem.right_bytes) >= _SIZE_LIMIT:
        return f"it has {_SIZE_LIMIT:,} rows or more, or the right matrix as many bytes"
    return None


def run(plan: ProductPlan, operands: Product) -> Array:
    """Runs the kernel, and the epilogue apart where its parameters are not one a column."""
    a = capability.refuse_elsewhere(_name(plan), operands.a, functools.partial(why_not, plan))
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, plan.output.dtype)
    operands = operands._replace(a=a)
    b = _prepared(plan, operands)
    if requantizes(plan):
        return _multiply(plan, operands, b, fused=True).reshape(plan.output.shape)
    per_row = _has_zero_per_row(plan)
    given = operands._replace(a_zero_point=None) if per_row else operands
    sums = _multiply(plan, given, b, fused=False)
    if per_row:
        sums -= as_int32(operands.a_zero_point, sums.ndim) * _column_sums(plan, b)
    return epilogue(plan, operands)(sums).reshape(plan.output.shape)


def run_with_whole_rows(plan: ProductPlan, operands: Product) -> Array:
    """Runs the kernel of a product that it requantizes: (..., M, N), and any bytes up to a chunk.

    The left matrix may have such rows, too: of zeros after the last element.
    """
    return _multiply_whole(plan, operands, _prepared(plan, operands), fused=True, always=True)


def run_with_lookup(plan: ProductPlan, operands: Product, entries: Array) -> Array:
    """Runs the kernel of a product that it requantizes, and replaces its bytes.

    Args:
      plan: of the product.
      operands: likewise.
      entries: uint8, 256 in the order of unsigned bytes; or several such tables, (tables, 256),
        each for as many of the columns.
    """
    output = _multiply(plan, operands, _prepared(plan, operands), fused=True, entries=entries)
    return output.reshape(plan.output.shape)


def run_with_sum(
    plan: ProductPlan, operands: Product, sum: SumTypes, addend: Addend
) -> Array | None:
    """Runs the kernel of a product that it requantizes, and adds an addend of the output's shape.

    None: with the addend it would take another tile, which is slower than a sum of its own.
    """
    from dmlax._matmul.cuda import kernel

    problem, matrices = _problem(plan, operands, _prepared(plan, operands), fused=True)
    problem = replace(problem, sum=sum)
    if problem.groups > 1 or not kernel.adds_in_wide_tiles(problem, capability.multiprocessors()):
        return None
    given = {
        name: x if x is None or name == "addend" else _single(x)
        for name, x in addend._asdict().items()
    }
    output: Array = _with_batching(problem)(matrices._replace(**given))
    return output.reshape(plan.output.shape)


def run_with_heads_last(plan: ProductPlan, operands: Product) -> Array:
    """Runs the kernel of a product that it requantizes, the last batch axis behind M."""
    problem, matrices = _problem(plan, operands, _prepared(plan, operands), fused=True)
    *batch, heads = plan.batch
    if problem.groups == 1:  # its rows are those of all heads
        return jnp.swapaxes(run(plan, operands), -2, -3)
    output: Array = _with_batching(replace(problem, heads=heads))(matrices)
    return output.reshape(*batch, plan.rows, heads, plan.columns)


def run_of_heads(
    plan: ProductPlan, operands: Product, rows: tuple[HeadRows, HeadRows], y: Array
) -> Array:
    """Runs the kernel of a product of matrices whose rows lie in those of one matrix.

    Args:
      plan: of the product, (..., heads, M, K) by (..., heads, K, N), whose K is of whole chunks.
      operands: likewise, without the matrices.
      rows: those of left, and of right by its columns, re-based to int8.
      y: the bytes of both.

    Returns:
      (..., heads, M, N), and any bytes up to a chunk.
    """
    zero_point = operands.b_zero_point
    given = None if zero_point is None else as_parameter(zero_point)
    problem = replace(
        MatmulProblem.of(plan, plan.arithmetic),
        left_rows=rows[0],
        right_rows=rows[1],
        whole_rows=True,
    )
    matrices = _with_parameters(plan, problem, operands, given, Matrices(y, y, None))
    output: Array = _with_batching(problem)(matrices)
    return output.reshape(*plan.batch, plan.rows, problem.stored)


def parameters_of(plan: ProductPlan, operands: Product) -> tuple[Any, bool, dict[str, Array]]:
    """The types of a product's parameters, whether it sums left's rows, and the parameters."""
    from dmlax._matmul.cuda import kernel

    problem, zero_point = MatmulProblem.of(plan, plan.arithmetic), operands.b_zero_point
    given = None if zero_point is None else as_parameter(zero_point)
    matrices = _with_parameters(plan, problem, operands, given, Matrices(None, None, None))
    found = {name: x for name, x in matrices._asdict().items() if x is not None}
    return kernel.parameter_types(problem, matrices), problem.sums_rows(matrices), found


def pack_heads_by_kernel(
    plan: ProductPlan, operands: Product, rows: HeadRows, y: Array
) -> Prepared | None:
    """Packs right matrices whose rows lie in those of one matrix; None where none fits a block."""
    from dmlax._matmul.cuda import pack as kernel

    shape = plan.matrix
    if not kernel.has_room(shape.depth, shape.columns):
        return None
    sizes = math.prod(shape.batch), shape.depth, shape.columns
    return _as_prepared(plan, operands, *kernel.pack_heads(rows, sizes, shape.matrix.dtype, y))


def pack_by_kernel(plan: ProductPlan, operands: Product) -> Prepared:
    """Packs the right matrices of a product: by a kernel, if they are not prepared and fit it."""
    from dmlax._matmul.cuda import pack as kernel

    shape = plan.matrix
    if isinstance(operands.b, Prepared) or not kernel.has_room(shape.depth, shape.columns):
        return _prepared(plan, operands)
    matrices = operands.b.reshape(-1, shape.depth, shape.columns)
    return _as_prepared(plan, operands, *kernel.pack(matrices))


def _as_prepared(plan: ProductPlan, operands: Product, packed: Array, sums: Array) -> Prepared:
    """Returns what a kernel packed and summed as a prepared matrix of the plan."""
    shape, zero_point = plan.matrix, operands.b_zero_point
    return Prepared(
        packed.reshape(*shape.batch, shape.columns, packed.shape[-1]),
        sums.reshape(*shape.batch, shape.columns),
        None if zero_point is None else as_parameter(zero_point),
    )


def why_not_fused(plan: ProductPlan, platform: str) -> str | None:
    """The sentence that says why nothing joins the kernel's epilogue, or None."""
    if why := why_not(plan, platform):
        return why
    return None if requantizes(plan) else "the product is requantized apart"


def requantizes(plan: ProductPlan) -> bool:
    """True if the kernel gives the outputs, not sums."""
    apart = plan.operands.bias is not None and plan.bias_limit is None
    alike = has_column_epilogue(plan) and not _has_zero_per_row(plan)
    return alike and plan.quantized and not apart


def _has_zero_per_row(plan: ProductPlan) -> bool:
    zero_point = plan.operands.a_zero_point
    return zero_point is not None and zero_point.size > 1


def _name(plan: ProductPlan) -> str:
    if plan.quantized:
        return "quantized_linear_matrix_multiply"
    return "matrix_multiply_integer_to_float" if plan.scaled else "matrix_multiply_integer"


def _prepared(plan: ProductPlan, operands: Product) -> Prepared:
    b = as_rows(plan, operands)
    return _pack(plan.matrix, operands.b, operands.b_zero_point) if b is None else b


def _pack(shape: MatrixShape, matrix: Array, zero_point: Array | None) -> Prepared:
    """Packs a matrix whose depth is padded first, which XLA does as it transposes."""
    missing = -shape.depth % CHUNK
    sizes = *shape.batch, shape.depth + missing, shape.columns
    rows = matrix.reshape(*shape.batch, shape.depth, shape.columns)
    widths = [(0, size - own) for size, own in zip(sizes, rows.shape, strict=True)]
    dtype = shape.matrix.dtype
    padded = jnp.pad(rows, widths, constant_values=np.asarray(rebase_of(dtype), dtype))
    return pack(MatrixShape(Aval(dtype, sizes)), padded, zero_point)


def _column_sums(plan: ProductPlan, b: Prepared) -> Array:
    """Sums of columns of the right matrix less its zero point, (..., 1, N)."""
    rank = len(plan.batch) + 2
    zero = as_int32(b.zero_point, rank) - rebase_of(plan.matrix.matrix.dtype)
    sums: Array = expand_rank(b.sums[..., None, :], rank) - plan.depth * zero
    return sums


def _multiply(
    plan: ProductPlan,
    operands: Product,
    b: Prepared,
    *,
    fused: bool,
    entries: Array | None = None,
) -> Array:
    """(..., M, N): quantized, or int32 sums."""
    output = _multiply_whole(plan, operands, b, fused=fused, entries=entries)
    return output[..., : plan.columns]


def _multiply_whole(
    plan: ProductPlan,
    operands: Product,
    b: Prepared,
    *,
    fused: bool,
    always: bool = False,
    entries: Array | None = None,
) -> Array:
    """Multiply as `_multiply` does; others follow the N columns where these are padded."""
    problem, matrices = _problem(plan, operands, b, fused=fused)
    if always or _stores_bytes_alone(problem):
        problem = replace(problem, whole_rows=True)
    if entries is not None:
        problem = replace(problem, tables=entries.size // 256)
        entries = entries.reshape(problem.tables, 256)
    output: Array = _with_batching(problem)(matrices._replace(entries=entries))
    return output.reshape(*plan.batch, plan.rows, problem.stored)


def _problem(
    plan: ProductPlan, operands: Product, b: Prepared, *, fused: bool
) -> tuple[MatmulProblem, Matrices]:
    """The kernel's problem and operands."""
    problem = MatmulProblem.of(plan, plan.arithmetic if fused else None)
    batch = _batch(plan, problem)
    matrices = Matrices(
        _left(plan, problem, operands.a),
        _right(problem, batch, b.packed),
        _sums(problem, batch, b.sums),
    )
    return problem, _with_parameters(plan, problem, operands, b.zero_point, matrices)


def _batch(plan: ProductPlan, problem: MatmulProblem) -> tuple[int, ...]:
    return plan.batch if problem.groups > 1 else ()


def _with_parameters(
    plan: ProductPlan,
    problem: MatmulProblem,
    operands: Product,
    right_zero_point: Array | None,
    matrices: Matrices,
) -> Matrices:
    """The kernel's operands: parameters, beside matrices."""
    per_column = functools.partial(_per_column, problem, _batch(plan, problem))
    matrices = matrices._replace(
        right_zero_point=per_column(right_zero_point),
        left_zero_point=_single(operands.a_zero_point),
    )
    if problem.arithmetic is not None:
        matrices = matrices._replace(
            right_scale=per_column(operands.b_scale),
            left_scale=_single(operands.a_scale),
            output_scale=_single(operands.output_scale),
            output_zero_point=_single(operands.output_zero_point),
            bias=_bias(problem, operands.bias),
        )
    return matrices


def _stores_bytes_alone(problem: MatmulProblem) -> bool:
    """True for many outputs of an odd number of columns: whole chunks of them are faster."""
    many = problem.groups * problem.rows * problem.columns >= _PADDED_OUTPUTS
    odd = problem.columns % 4 > 0 and problem.columns > CHUNK
    return many and odd and problem.output.itemsize == 1


def _left(plan: ProductPlan, problem: MatmulProblem, a: Array) -> Array:
    """(left groups, rows, depth)."""
    size = a.shape[-1]  # rows may be padded before
    if problem.left_groups > 1:
        a = jnp.broadcast_to(a, (*plan.batch, plan.rows, size))
    return pad_end(a.reshape(problem.left_groups, problem.rows, size), problem.depth - size)


def _right(problem: MatmulProblem, batch: tuple[int, ...], packed: Array) -> Array:
    """(groups, columns, depth)."""
    sizes = problem.columns, packed.shape[-1]  # rows may be padded before
    packed = jnp.broadcast_to(packed, (*batch, *sizes)) if batch else packed
    return pad_end(packed.reshape(problem.groups, *sizes), problem.depth - sizes[1])


def _sums(problem: MatmulProblem, batch: tuple[int, ...], sums: Array) -> Array:
    """(groups, columns)."""
    sums = jnp.broadcast_to(sums, (*batch, problem.columns)) if batch else sums
    return sums.reshape(problem.groups, problem.columns)


def _per_column(
    problem: MatmulProblem, batch: tuple[int, ...], parameter: Array | None
) -> Array | None:
    """One value, or (groups, columns)."""
    if parameter is None or parameter.size == 1:
        return _single(parameter)
    parameter = parameter.reshape(parameter.shape[-1:]) if not batch else parameter
    parameter = expand_rank(parameter, len(batch) + 2)
    sizes = problem.groups, problem.columns
    return jnp.broadcast_to(parameter, (*batch, 1, problem.columns)).reshape(sizes)


def _bias(problem: MatmulProblem, bias: Array | None) -> Array | None:
    """(groups, columns)."""
    if bias is None:
        return None
    return jnp.broadcast_to(bias.reshape(-1), (problem.groups, problem.columns))


def _single(parameter: Array | None) -> Array | None:
    return None if parameter is None else parameter.reshape(1)


def _with_batching(problem: MatmulProblem) -> Any:
    """The product with a batching rule: one kernel unless a parameter of all columns is mapped."""

    def multiply(operands: Matrices) -> Array:
        from dmlax._matmul.cuda import kernel

        return kernel.multiply(problem, capability.multiprocessors(), operands)

    call = jax.custom_batching.custom_vmap(multiply)

    @call.def_vmap
    def batched(size: int, arguments: Any, operands: Matrices) -> tuple[Array, bool]:
        (mapped,) = arguments
        shape = size, *problem.output_sizes
        if size == 0:
            return jnp.zeros(shape, problem.written), True
        larger = _merge(problem, size, mapped, operands)
        if larger is None:
            axes = jax.tree.map(lambda each: 0 if each else None, mapped)
            return jax.vmap(jax.custom_batching.sequential_vmap(multiply), (axes,))(operands), True
        return _with_batching(larger[0])(larger[1]).reshape(shape), True

    return call


def _merge(
    problem: MatmulProblem, size: int, mapped: Matrices, operands: Matrices
) -> tuple[MatmulProblem, Matrices] | None:
    """A mapped product as one, or None: more rows where only left is mapped, else more groups."""
    of_right = ("right", "sums", *PER_COLUMN)
    others = [name for name in Matrices._fields if name not in ("left", *of_right)]
    if any(getattr(mapped, name) for name in others if name != "addend"):
        return None
    if problem.sum is not None and not (mapped.left and mapped.addend):
        return None
    if problem.left_rows is not None:
        return _merge_heads(problem, size, mapped, operands)
    if problem.groups == 1 and not any(getattr(mapped, name) for name in of_right):
        merged = replace(problem, rows=size * problem.rows)
        left = operands.left.reshape(1, merged.rows, problem.depth)
        if problem.sum is not None:
            operands = operands._replace(addend=operands.addend.reshape(-1, problem.columns))
        return _if_small(merged, operands._replace(left=left))
    if problem.sum is not None:
        return None
    groups = size * problem.groups

    def merge(name: str, *sizes: int) -> Array:
        """(groups, ...) of an operand that may be mapped, of one or of each of its groups."""
        value = getattr(operands, name)
        first = size if getattr(mapped, name) else 1
        last = value.shape[-1]  # 1 of a parameter of one value
        value = value.reshape(first, -1, *sizes[:-1], last)
        return jnp.broadcast_to(value, (size, problem.groups, *sizes)).reshape(groups, *sizes)

    found = {
        "left": merge("left", problem.rows, problem.depth),
        "right": merge("right", problem.columns, problem.depth),
        "sums": merge("sums", problem.columns),
    }
    for name in PER_COLUMN:
        value = getattr(operands, name)
        if value is not None and (value.size > 1 or name == "bias" or getattr(mapped, name)):
            found[name] = merge(name, problem.columns)
    merged = replace(problem, groups=groups, left_groups=groups)
    return _if_small(merged, operands._replace(**found))


def _merge_heads(
    problem: MatmulProblem, size: int, mapped: Matrices, operands: Matrices
) -> tuple[MatmulProblem, Matrices] | None:
    """A mapped product of heads as one of more images, where nothing else is mapped; else None."""
    if not (mapped.left and mapped.right) or any(getattr(mapped, name) for name in PER_COLUMN):
        return None
    groups = size * problem.groups
    merged = replace(problem, groups=groups, left_groups=groups)
    return merged, operands


def _if_small(problem: MatmulProblem, operands: Matrices) -> tuple[MatmulProblem, Matrices] | None:
    large = max(problem.rows, problem.right_bytes) >= _SIZE_LIMIT
    return None if large else (problem, operands)
