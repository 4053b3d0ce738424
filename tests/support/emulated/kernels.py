"""Outputs of the Hopper kernels, computed in JAX: for tests of what surrounds them."""

import jax.numpy as jnp

import dmlax
from dmlax._core.arguments import aval_of
from dmlax._core.byte_packing import pad_end, rebase_of, to_int8
from dmlax._core.requantize import requantizer
from dmlax._fused.softmax import xla as softmax_by_xla
from dmlax._fused.softmax.plan import Softmax, SoftmaxPlan


def multiply(problem, multiprocessors, given):
    """The outputs of a matrix product, and 77 after the columns."""
    given = _gather(problem, given)
    zero = 0 if given.right_zero_point is None else given.right_zero_point.astype(jnp.int32)
    zero = jnp.atleast_2d(zero)[:, None] - rebase_of(problem.types.right)
    left_zero = 0 if given.left_zero_point is None else given.left_zero_point.astype(jnp.int32)
    left, right = given.left.astype(jnp.int32), given.right.astype(jnp.int32)
    sums = jnp.matmul(left, right.swapaxes(-1, -2)) - zero * left.sum(-1, keepdims=True)
    sums += left_zero * (zero * problem.summed - given.sums[:, None])
    if given.bias is not None:
        sums += jnp.clip(given.bias, -problem.types.bias_limit, problem.types.bias_limit)[:, None]
    scales = given.left_scale, jnp.atleast_2d(given.right_scale)[:, None], given.output_scale
    last = given.output_zero_point, problem.types.output, problem.types.arithmetic
    outputs = requantizer(*scales, *last)(sums)
    if given.entries is not None:
        numbers = jnp.arange(problem.columns) // (problem.columns // problem.tables)
        outputs = given.entries[numbers, outputs.view(jnp.uint8)].view(problem.types.output)
    if problem.types.sum is not None:
        outputs = _add(problem, given, outputs)
    fill = jnp.asarray(77, problem.types.written)
    outputs = pad_end(outputs, problem.stored - problem.columns, fill)
    if problem.heads > 1:
        outputs = outputs.reshape(-1, problem.heads, *outputs.shape[1:]).swapaxes(1, 2)
    return outputs.reshape(problem.output_sizes)


def _add(problem, given, outputs):
    """The sums of outputs and an addend."""
    terms = [
        (outputs, given.output_scale, given.output_zero_point),
        (given.addend.reshape(outputs.shape), given.addend_scale, given.addend_zero_point),
    ]
    a, b = terms[::-1] if problem.types.sum.addend_first else terms
    return dmlax.element_wise_quantized_linear_add(
        a[0],
        b[0],
        a_scale=a[1],
        b_scale=b[1],
        output_scale=given.sum_scale,
        a_zero_point=a[2],
        b_zero_point=b[2],
        output_zero_point=given.sum_zero_point,
        arithmetic=problem.types.arithmetic,
        implementation="reference",
    )


def _gather(problem, given):
    """The matrices of operands that lie in rows of all heads."""
    if problem.left_rows is None:
        return given
    left = _of_heads(problem.left_rows, problem.groups, problem.rows, problem.depth, given.left)
    sizes = problem.groups, problem.columns, problem.depth
    right = _of_heads(problem.right_rows, *sizes, given.right).view(jnp.int8)
    left = left.view(problem.types.left)
    return given._replace(left=left, right=right, sums=right.sum(-1, dtype=jnp.int32))


def _of_heads(rows, groups, count, size, matrix):
    """(groups, rows, bytes) of a matrix that has those of all heads."""
    group, row, byte = jnp.ogrid[:groups, :count, :size]
    return matrix.reshape(-1)[rows.offset(group) + row * rows.row + byte]


def pack_heads(rows, sizes, dtype, matrices):
    """Pack as `pack` does, of matrices whose rows lie in those of all heads."""
    return pack(_of_heads(rows, *sizes, matrices).view(dtype))


def pack(matrices):
    """The columns of matrices as int8, zeros after each, and their sums."""
    columns = to_int8(matrices).swapaxes(-1, -2)
    return pad_end(columns, -columns.shape[-1] % 16), columns.sum(-1, dtype=jnp.int32)


def softmax(quotients, count, x, terms):
    """The quotients of a softmax's rows, and zeros after them."""
    elements = x[..., :count]
    plan = SoftmaxPlan(aval_of(elements), *quotients[1:])
    operands = Softmax(elements, terms)
    return pad_end(softmax_by_xla.run(plan, operands), x.shape[-1] - count)
