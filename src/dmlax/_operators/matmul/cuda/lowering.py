"""Matrix products on Hopper GPUs, requantized in registers if all rows have the same parameters.

The kernel is in `kernel`, which is imported only where it is lowered.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.arguments import ABSENT, Aval, expand_rank
from dmlax._core.byte_packing import pad_end, rebase_of
from dmlax._core.prepared_weights import Prepared
from dmlax._cuda import capability, tuning
from dmlax._cuda.batching import call_merged
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._cuda.product_types import Addend, SumTypes, UniformProduct
from dmlax._operators.matmul.cuda.problem import PER_COLUMN, MatmulProblem, Matrices
from dmlax._operators.matmul.epilogue import as_int32, epilogue, has_column_epilogue
from dmlax._operators.matmul.plan import MatrixShape, Operands, ProductPlan
from dmlax._operators.matmul.prepare import PACKER, as_parameter, as_rows

_SIZE_LIMIT = 2**31  # limits rows, and the bytes of the right matrices


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


def run(plan: ProductPlan, operands: Operands) -> Array:
    """Runs the kernel, and the epilogue apart where its parameters are not one a column."""
    a = capability.refuse_elsewhere(_name(plan), operands.a, functools.partial(why_not, plan))
    if plan.output.size == 0:
        return jnp.zeros(plan.output.shape, plan.output.dtype)
    operands = operands._replace(a=a)
    b = _prepared(plan, operands)
    if requantizes(plan):
        output = _multiply(plan, operands, b, fused=True)
        return output[..., : plan.columns].reshape(plan.output.shape)
    per_row = _has_zero_per_row(plan)
    summed = operands._replace(a_zero_point=None) if per_row else operands
    sums = _multiply(plan, summed, b, fused=False)[..., : plan.columns]
    if per_row:
        sums -= as_int32(operands.a_zero_point, sums.ndim) * _column_sums(plan, b)
    return epilogue(plan, operands)(sums).reshape(plan.output.shape)


def run_with_whole_rows(plan: ProductPlan, operands: Operands) -> Array:
    """Runs a requantizing kernel that stores (..., M, N up to a whole chunk), with any bytes last.

    The rows of the left matrix may also end with zeros up to a whole chunk.
    """
    return _multiply(plan, operands, _prepared(plan, operands), fused=True, always=True)


def run_with_lookup(plan: ProductPlan, operands: Operands, entries: Array) -> Array:
    """Runs a requantizing kernel that replaces every byte by its entry.

    Args:
      plan: of the product.
      operands: of the product.
      entries: uint8, 256 in the order of unsigned bytes; or (tables, 256), tables for equal parts
        of the columns.
    """
    b = _prepared(plan, operands)
    output = _multiply(plan, operands, b, fused=True, entries=entries.reshape(-1, 256))
    return output[..., : plan.columns].reshape(plan.output.shape)


def run_with_sum(
    plan: ProductPlan, operands: Operands, sum: SumTypes, addend: Addend
) -> Array | None:
    """Runs a requantizing kernel that adds an addend of the output's shape.

    None where the addend would need a smaller tile: a product and a sum are then faster.
    """
    from dmlax._operators.matmul.cuda import kernel

    problem, matrices = _problem(plan, operands, _prepared(plan, operands), fused=True)
    problem = replace(problem, types=replace(problem.types, sum=sum))
    if problem.groups > 1 or not kernel.adds_in_wide_tiles(problem, capability.multiprocessors()):
        return None
    x, *parameters = addend
    terms = _single(**dict(zip(Addend._fields[1:], parameters, strict=True)))
    output = _launch(problem, matrices._replace(addend=x, **terms))
    return output.reshape(plan.output.shape)


def run_with_heads_last(plan: ProductPlan, operands: Operands) -> Array:
    """Runs a requantizing kernel that stores the last batch axis behind M."""
    problem, matrices = _problem(plan, operands, _prepared(plan, operands), fused=True)
    *batch, heads = plan.batch
    if problem.groups == 1:  # its rows are those of all heads
        return jnp.swapaxes(run(plan, operands), -2, -3)
    output = _launch(replace(problem, heads=heads), matrices)
    return output.reshape(*batch, plan.rows, heads, plan.columns)


def run_of_heads(
    plan: ProductPlan, operands: Operands, rows: tuple[HeadRows, HeadRows], y: Array
) -> Array:
    """Runs a requantizing kernel on matrices whose rows lie in those of one matrix.

    Args:
      plan: of the product, (..., heads, M, K) by (..., heads, K, N), whose K is of whole chunks.
      operands: of the product, without the matrices.
      rows: those of left, and those of right by its columns, re-based to int8.
      y: the bytes of both.

    Returns:
      (..., heads, M, N), and any bytes up to a chunk.
    """
    problem = MatmulProblem.of(plan, plan.arithmetic)
    problem = replace(problem, left_rows=rows[0], right_rows=rows[1], whole_rows=True)
    parameters = _parameters(plan, problem, operands, operands.b_zero_point)
    output = _launch(problem, Matrices(y, y, ABSENT, **parameters))
    return output.reshape(*plan.batch, plan.rows, problem.stored)


def parameters_of(plan: ProductPlan, operands: Operands) -> tuple[UniformProduct, dict[str, Array]]:
    """The product, and its parameters, which must be single values."""
    problem = MatmulProblem.of(plan, plan.arithmetic)
    parameters = _parameters(plan, problem, operands, operands.b_zero_point)
    matrices = Matrices(ABSENT, ABSENT, ABSENT, **parameters)
    present = {name: x for name, x in matrices._asdict().items() if x is not None}
    return UniformProduct(problem.types, problem.sums_rows(matrices), plan.depth), present


def pack_heads_by_kernel(
    plan: ProductPlan, operands: Operands, rows: HeadRows, y: Array
) -> Prepared | None:
    """Packs right matrices whose rows lie in those of one matrix; None if none fits a block."""
    from dmlax._operators.matmul.cuda import pack as kernel

    shape = plan.matrix
    if not kernel.has_room(shape.depth, shape.columns):
        return None
    sizes = math.prod(shape.batch), shape.depth, shape.columns
    packed, sums = kernel.pack_heads(rows, sizes, shape.matrix.dtype, y)
    return Prepared(
        packed.reshape(*shape.batch, shape.columns, packed.shape[-1]),
        sums.reshape(*shape.batch, shape.columns),
        jax.tree.map(as_parameter, operands.b_zero_point),
    )


def pack_by_kernel(plan: ProductPlan, operands: Operands) -> Prepared:
    """Packs the right matrices of a product: by a kernel, if they are not prepared and fit it."""
    packed, depth, columns = None, plan.depth, plan.columns
    if not isinstance(operands.b, Prepared):
        rows = HeadRows(1, depth * columns, 0, columns, 0)
        packed = pack_heads_by_kernel(plan, operands, rows, operands.b)
    return _prepared(plan, operands) if packed is None else packed


def why_not_fused(plan: ProductPlan, platform: str) -> str | None:
    """The sentence that says why nothing joins the kernel's epilogue, or None."""
    if why := why_not(plan, platform):
        return why
    return None if requantizes(plan) else "the product is requantized apart"


def requantizes(plan: ProductPlan) -> bool:
    """True if the kernel gives the outputs, not sums."""
    apart = plan.operands.bias is not None and plan.bias_limit is None
    by_columns = has_column_epilogue(plan) and not _has_zero_per_row(plan)
    return by_columns and plan.quantized and not apart


def _has_zero_per_row(plan: ProductPlan) -> bool:
    zero_point = plan.operands.a_zero_point
    return zero_point is not None and zero_point.size > 1


def _name(plan: ProductPlan) -> str:
    if plan.quantized:
        return "quantized_linear_matrix_multiply"
    return "matrix_multiply_integer_to_float" if plan.scaled else "matrix_multiply_integer"


def _prepared(plan: ProductPlan, operands: Operands) -> Prepared:
    b = as_rows(plan, operands)
    return _pack(plan.matrix, operands.b, operands.b_zero_point) if b is None else b


def _pack(shape: MatrixShape, matrix: Array, zero_point: Array | None) -> Prepared:
    """Packs a matrix whose depth is padded first, which XLA does as it transposes."""
    missing = -shape.depth % CHUNK
    sizes = *shape.batch, shape.depth + missing, shape.columns
    rows = matrix.reshape(*shape.batch, shape.depth, shape.columns)
    widths = [(0, size - actual) for size, actual in zip(sizes, rows.shape, strict=True)]
    dtype = shape.matrix.dtype
    padded = jnp.pad(rows, widths, constant_values=np.asarray(rebase_of(dtype), dtype))
    return PACKER.pack(MatrixShape(Aval(dtype, sizes)), padded, zero_point)


def _column_sums(plan: ProductPlan, b: Prepared) -> Array:
    """Sums of columns of the right matrix less its zero point, (..., 1, N)."""
    rank = len(plan.batch) + 2
    zero = as_int32(b.zero_point, rank) - rebase_of(plan.matrix.matrix.dtype)
    sums: Array = expand_rank(b.sums[..., None, :], rank) - plan.depth * zero
    return sums


def _multiply(
    plan: ProductPlan,
    operands: Operands,
    b: Prepared,
    *,
    fused: bool,
    always: bool = False,
    entries: Array | None = None,
) -> Array:
    """(..., M, N), quantized or int32 sums; bytes follow the N columns where these are padded.

    `always` pads the columns of every product, and `entries` are (tables, 256).
    """
    problem, matrices = _problem(plan, operands, b, fused=fused)
    if always or _stores_bytes_alone(problem):
        problem = replace(problem, whole_rows=True)
    if entries is not None:
        problem = replace(problem, tables=len(entries))
    output = _launch(problem, matrices._replace(entries=entries))
    return output.reshape(*plan.batch, plan.rows, problem.stored)


def _problem(
    plan: ProductPlan, operands: Operands, b: Prepared, *, fused: bool
) -> tuple[MatmulProblem, Matrices]:
    """The kernel's problem and operands."""
    problem = MatmulProblem.of(plan, plan.arithmetic if fused else None)
    batch, size = _batch(plan, problem), b.packed.shape[-1]  # rows may be padded before
    right = _grouped(problem, batch, b.packed, problem.columns, size)
    matrices = Matrices(
        _left(plan, problem, operands.a),
        pad_end(right, problem.depth - size),
        _grouped(problem, batch, b.sums, problem.columns),
        **_parameters(plan, problem, operands, b.zero_point),
    )
    return problem, matrices


def _batch(plan: ProductPlan, problem: MatmulProblem) -> tuple[int, ...]:
    return plan.batch if problem.groups > 1 else ()


def _parameters(
    plan: ProductPlan, problem: MatmulProblem, operands: Operands, right_zero_point: Array | None
) -> dict[str, Any]:
    """The kernel's parameters, by the names of `Matrices`."""
    per_column = functools.partial(_per_column, problem, _batch(plan, problem))
    zero_points = {"right_zero_point": per_column(right_zero_point)}
    zero_points |= _single(left_zero_point=operands.a_zero_point)
    if problem.types.arithmetic is None:
        return zero_points
    sizes = problem.groups, problem.columns
    return {
        **zero_points,
        "right_scale": per_column(operands.b_scale),
        **_single(
            left_scale=operands.a_scale,
            output_scale=operands.output_scale,
            output_zero_point=operands.output_zero_point,
        ),
        "bias": jax.tree.map(lambda x: jnp.broadcast_to(x.reshape(-1), sizes), operands.bias),
    }


def _stores_bytes_alone(problem: MatmulProblem) -> bool:
    """True for many outputs of an odd number of columns: whole chunks of them are faster."""
    many = problem.groups * problem.rows * problem.columns >= tuning.FEWEST_PADDED_OUTPUTS
    odd = problem.columns % 4 > 0 and problem.columns > CHUNK
    return many and odd and problem.types.output.itemsize == 1


def _left(plan: ProductPlan, problem: MatmulProblem, a: Array) -> Array:
    """(left groups, rows, depth)."""
    size = a.shape[-1]  # rows may be padded before
    if problem.left_groups > 1:
        a = jnp.broadcast_to(a, (*plan.batch, plan.rows, size))
    return pad_end(a.reshape(problem.left_groups, problem.rows, size), problem.depth - size)


def _grouped(problem: MatmulProblem, batch: tuple[int, ...], x: Array, *sizes: int) -> Array:
    """(groups, *sizes) of an operand that all groups may share."""
    x = jnp.broadcast_to(x, (*batch, *sizes)) if batch else x
    return x.reshape(problem.groups, *sizes)


def _per_column(
    problem: MatmulProblem, batch: tuple[int, ...], parameter: Array | None
) -> Array | None:
    """One value, or (groups, columns)."""
    if parameter is None or parameter.size == 1:
        return None if parameter is None else parameter.reshape(1)
    parameter = parameter.reshape(parameter.shape[-1:]) if not batch else parameter
    parameter = expand_rank(parameter, len(batch) + 2)
    sizes = problem.groups, problem.columns
    return jnp.broadcast_to(parameter, (*batch, 1, problem.columns)).reshape(sizes)


def _single(**parameters: Array | None) -> dict[str, Any]:
    """Parameters of one value, by name."""
    return {name: None if x is None else x.reshape(1) for name, x in parameters.items()}


def _launch(problem: MatmulProblem, operands: Matrices) -> Array:
    """Runs one kernel, also for a mapped call unless a parameter of all columns is mapped."""
    from dmlax._operators.matmul.cuda import kernel

    def multiply(operands: Matrices) -> Array:
        return kernel.multiply(problem, capability.multiprocessors(), operands)

    def merge(
        size: int, mapped: Sequence[Matrices], operands: tuple[Matrices, ...]
    ) -> Array | None:
        merged = _merge(problem, size, mapped[0], operands[0])
        return merged and _launch(*merged).reshape(size, *problem.output_sizes)

    return call_merged(multiply, merge, operands)


def _merge(
    problem: MatmulProblem, size: int, mapped: Matrices, operands: Matrices
) -> tuple[MatmulProblem, Matrices] | None:
    """A mapped product as one, or None: more rows where only left is mapped, else more groups."""
    groups = size * problem.groups
    of_right = {"right", "sums", *PER_COLUMN}
    varying = {name for name, is_mapped in mapped._asdict().items() if is_mapped}
    if varying - of_right - {"left", "addend"}:
        return None
    if problem.left_rows is not None:
        alone = varying == {"left", "right"}
        return (replace(problem, groups=groups, left_groups=groups), operands) if alone else None
    if operands.addend is not None:
        if varying != {"left", "addend"} or problem.groups > 1:
            return None
        operands = operands._replace(addend=operands.addend.reshape(-1, problem.columns))
    if problem.groups == 1 and not varying & of_right:
        merged = replace(problem, rows=size * problem.rows)
        left = operands.left.reshape(1, merged.rows, problem.depth)
        return _if_small(merged, operands._replace(left=left))

    def merge(name: str, *sizes: int) -> Array:
        """(groups, ...) of an operand that may be mapped, and may have one group for all."""
        value = getattr(operands, name)
        first = size if getattr(mapped, name) else 1
        last = value.shape[-1]  # 1 of a parameter of one value
        value = value.reshape(first, -1, *sizes[:-1], last)
        return jnp.broadcast_to(value, (size, problem.groups, *sizes)).reshape(groups, *sizes)

    operands_of_groups = {
        "left": merge("left", problem.rows, problem.depth),
        "right": merge("right", problem.columns, problem.depth),
        "sums": merge("sums", problem.columns),
    }
    for name in PER_COLUMN:
        value = getattr(operands, name)
        if value is not None and (value.size > 1 or name == "bias" or getattr(mapped, name)):
            operands_of_groups[name] = merge(name, problem.columns)
    merged = replace(problem, groups=groups, left_groups=groups)
    return _if_small(merged, operands._replace(**operands_of_groups))


def _if_small(problem: MatmulProblem, operands: Matrices) -> tuple[MatmulProblem, Matrices] | None:
    large = max(problem.rows, problem.right_bytes) >= _SIZE_LIMIT
    return None if large else (problem, operands)
