"""An attention of one tensor with itself: a QGemm makes queries, keys and values at once.

The kernels of a GPU read them where the product stores them, in rows of all heads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

import dmlax
from dmlax._core import dispatch
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import capability
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.head_rows import HeadRows
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul.cuda import lowering as mosaic_gpu
from dmlax._matmul.plan import Product, ProductPlan
from dmlax.onnx.graph import OWN, Node
from dmlax.onnx.operators import attention, float32_softmax, tables
from dmlax.onnx.operators.fused_plan import FusedPlan
from dmlax.onnx.operators.quantized import multiply_gemm
from dmlax.onnx.operators.table import Parameter, Tensor, operator
from dmlax.onnx.operators.values import is_known

_MOST_BYTES = 2**31  # of the product's output, whose offsets have 32 bits


class Function(NamedTuple):
    """A function of a byte of the queries, the keys or the values; without nodes the identity."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]  # of the source, and of the constants

    def table(self, dtype: Any, constants: Mapping[str, Any], arithmetic: Arithmetic) -> np.ndarray:
        """The results of all bytes."""
        if not self.nodes:
            limits = np.iinfo(dtype)
            return np.arange(limits.min, limits.max + 1).astype(dtype)
        return tables.of_nodes(dtype, self.names[0], self.nodes, constants, arithmetic)


@operator("QLinearSelfAttention", 1, domain=OWN)
def quantized_self_attention(
    a: Tensor,
    a_scale: Parameter,
    a_zero_point: Parameter,
    b: Tensor,
    b_scale: Parameter,
    b_zero_point: Parameter,
    bias: Tensor | None,
    y_scale: Parameter,
    y_zero_point: Parameter,
    q_scale: Parameter,
    q_zero_point: Parameter,
    k_scale: Parameter,
    k_zero_point: Parameter,
    scores_scale: Parameter,
    scores_zero_point: Parameter,
    weights_scale: Parameter,
    weights_zero_point: Parameter,
    v_scale: Parameter,
    v_zero_point: Parameter,
    output_scale: Parameter,
    output_zero_point: Parameter,
    /,
    *constants: Parameter,
    functions: tuple[Function, ...],
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    row: int = -1,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    heads_last: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies rows by three matrices in one, and attends to the result, (images, ...).

    `functions` are of the queries, the keys and the values, `names` those of the constants, and
    `sizes` the rows of an image, the heads, and the columns of a head. From 0 on `row` is that of
    the only query of each image.
    """
    rows, heads, columns = sizes
    layout = Layout(rows, heads, columns, row)
    operands = (a, a_scale, a_zero_point, b, b_scale, b_zero_point, bias, y_scale, y_zero_point)
    attributes = alpha, transA, transB, arithmetic
    known = dict(zip(names, constants, strict=True))

    def tables_of(dtype: Any) -> tuple[np.ndarray, ...]:
        return tuple(each.table(dtype, known, arithmetic) for each in functions)

    def attend(parts: Sequence[Any], implementation: Any = "auto") -> Any:
        q, k, v = parts
        of_scores = q_scale, q_zero_point, k, k_scale, k_zero_point, scores_scale, scores_zero_point
        of_values = weights_scale, weights_zero_point, v, v_scale, v_zero_point
        return attention.attend(
            (q, *of_scores),
            (*of_values, output_scale, output_zero_point),
            heads_last,
            arithmetic,
            implementation,
        )

    if arithmetic == "exact" or capability.why_not("cuda"):
        y = multiply_gemm(operands, *attributes)
        return attend(_take_apart(y, layout, tables_of(y.dtype)))
    bind = dispatch.Bind(plan=True)
    plan, product = multiply_gemm(operands, *attributes, bind)
    found = tables_of(plan.output.dtype)
    of_attention, given = attend(_zeros(plan, layout, found), bind)
    given = given._replace(
        scores=given.scores._replace(a=None, b=None), values=given.values._replace(b=None)
    )
    both = SelfAttentionPlan(plan, of_attention, layout)
    return dispatch.call(SELF_ATTENTION, both, SelfAttention(product, found, given), "auto")


class Layout(NamedTuple):
    """The layout of queries, keys and values in the product's output."""

    rows: int  # of an image
    heads: int
    columns: int  # of a head
    row: int  # of the only query; -1: all are queries

    def split(self, y: Any) -> list[Any]:
        """The queries, the keys and the values: (images, heads, rows, columns)."""
        parts = y.reshape(-1, self.rows, 3, self.heads, self.columns).transpose(2, 0, 3, 1, 4)
        queries = parts[0] if self.row < 0 else parts[0][:, :, self.row : self.row + 1]
        return [queries, parts[1], parts[2]]

    def head_rows(self, part: int) -> HeadRows:
        """The rows of the queries, the keys or the values: part 0, 1 or 2."""
        width = 3 * self.heads * self.columns
        start = part * self.heads * self.columns
        if part == 0 and self.row >= 0:
            start += self.row * width
        return HeadRows(self.heads, self.rows * width, self.columns, width, start)


def _take_apart(y: Any, layout: Layout, found: Sequence[Any]) -> list[Any]:
    """The functions of the queries, of the keys, with rows and columns exchanged, of the values."""
    q, k, v = (_look_up(part, table) for part, table in zip(layout.split(y), found, strict=True))
    return [q, jnp.swapaxes(k, -1, -2), v]


def _look_up(x: Any, table: Any) -> Any:
    """A function of each byte, where it is known to be another."""
    same = np.sort(np.arange(256).astype(np.uint8).view(table.dtype))
    is_same = x.dtype == table.dtype and is_known(table) and np.array_equal(table, same)
    return x if is_same else dmlax.quantized_lookup(x, table)


def _zeros(plan: ProductPlan, layout: Layout, found: Sequence[Any]) -> list[Any]:
    """Zeros of the shapes of the queries, the keys and the values, to plan with."""
    rows, heads, columns, row = layout
    images = plan.output.shape[0] // rows
    counts = rows if row < 0 else 1, rows, rows
    q, k, v = (
        jnp.zeros((images, heads, count, columns), table.dtype)
        for count, table in zip(counts, found, strict=True)
    )
    return [q, jnp.swapaxes(k, -1, -2), v]


class SelfAttention(NamedTuple):
    """The operands; what one gives the next is absent."""

    product: Product
    tables: tuple[Any, ...]  # of the bytes of the queries, the keys and the values
    attention: attention.Attention


@dataclass(frozen=True)
class SelfAttentionPlan(FusedPlan):
    """All that is static."""

    attention: attention.AttentionPlan
    layout: Layout

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the output."""
        return self.attention.output

    def __str__(self) -> str:
        return f"{self.product}; {self.attention}"


def _why_not(plan: SelfAttentionPlan, platform: str) -> str | None:
    """The sentence that says why the kernels do not take the plan, or None."""
    if why := mosaic_gpu.why_not_fused(plan.product, platform):
        return why
    if plan.layout.columns % CHUNK:
        return f"the columns of a head are no multiple of {CHUNK}"
    if plan.product.output.size >= _MOST_BYTES:
        return f"the product's output has {_MOST_BYTES:,} bytes or more"
    return attention.why_not(plan.attention, platform)


def _kernels(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs the kernels, which read heads where the product stores them."""
    of_scores, of_values = plan.attention.scores, plan.attention.values
    entries = _entries(plan, operands.tables)
    y = mosaic_gpu.run_with_lookup(plan.product, operands.product, entries)
    given = operands.attention
    at_once = _attend_at_once(plan, given, y)
    if at_once is not None:
        return at_once
    q, k, v = (plan.layout.head_rows(part) for part in range(3))
    scores = mosaic_gpu.run_of_heads(of_scores, given.scores, (q, k), y)
    values: Any = mosaic_gpu.pack_heads_by_kernel(of_values, given.values, v, y)
    if values is None:
        dtype = of_values.matrix.matrix.dtype
        values = plan.layout.split(y)[2].astype(dtype)
    return attention.finish(plan.attention, given, scores, values)


def _attend_at_once(plan: SelfAttentionPlan, given: attention.Attention, y: Array) -> Array | None:
    """Runs the kernel that keeps scores in shared memory; None where it is not for these sizes."""
    from dmlax._cuda import attention as kernel
    from dmlax._cuda.softmax import Quotients

    layout, both = plan.layout, plan.attention
    if layout.row >= 0 or not kernel.is_faster(layout.rows, layout.columns):
        return None
    (scores, of_scores), (values, of_values) = (
        _uniform_product(both.scores, given.scores),
        _uniform_product(both.values, given.values),
    )
    if scores.types.per_column or values.types.per_column:
        return None
    groups = plan.product.output.shape[0] // layout.rows * layout.heads
    sizes = kernel.Sizes(groups, layout.heads, layout.rows, both.heads_last)
    rows = layout.head_rows(0), layout.head_rows(1), layout.head_rows(2)
    quotients = Quotients(*float32_softmax.quotients_of(both.softmax))
    problem = kernel.Problem(sizes, rows, scores, values, quotients)
    terms = jnp.asarray(given.softmax.terms)
    output = kernel.attend(problem, y, of_scores, of_values, terms)
    return output.reshape(both.output.shape)


def _uniform_product(plan: ProductPlan, operands: Product) -> tuple[Any, dict[str, Array]]:
    """The kernel's product, and its parameters."""
    from dmlax._cuda import attention as kernel

    types, sums_rows, found = mosaic_gpu.parameters_of(plan, operands)
    return kernel.Product(types, sums_rows, plan.depth), found


def _entries(plan: SelfAttentionPlan, given: tuple[Any, ...]) -> Array:
    """The tables as uint8, in the order of unsigned bytes; keys are re-based to int8."""
    found = [jnp.asarray(table).astype(jnp.uint8) for table in given]
    if given[1].dtype == jnp.uint8:
        found[1] = found[1] ^ 128
    if plan.product.output.dtype == jnp.int8:
        found = [jnp.roll(table, 128) for table in found]
    return jnp.stack(found)


def _one_by_one(plan: SelfAttentionPlan, operands: SelfAttention) -> Array:
    """Runs each as it runs alone."""
    y = dispatch.call(QUANTIZED, plan.product, operands.product, "auto")
    q, k, v = _take_apart(y, plan.layout, operands.tables)
    given = operands.attention
    given = given._replace(
        scores=given.scores._replace(a=q, b=k), values=given.values._replace(b=v)
    )
    found: Array = dispatch.call(attention.ATTENTION, plan.attention, given, "auto")
    return found


SELF_ATTENTION = dispatch.Operator(
    "quantized_self_attention",
    (
        dispatch.kernel("mosaic_gpu", _kernels, _why_not, "cuda"),
        dispatch.Lowering("xla", _one_by_one),
    ),
)
