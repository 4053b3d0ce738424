"""An attention of 8 bits: two products, and the softmax between them.

Kernels of a GPU store rows of whole chunks. Where the three run one after another, rows stay so.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from dmlax._core import compat, dispatch
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._cuda import capability
from dmlax._matmul.api import QUANTIZED
from dmlax._matmul.cuda import lowering as mosaic_gpu
from dmlax._matmul.plan import Product, ProductPlan
from dmlax.onnx.graph import OWN
from dmlax.onnx.operators import float32_softmax, tables
from dmlax.onnx.operators.quantized import multiply_matrices
from dmlax.onnx.operators.table import Parameter, Tensor, operator


@operator("QLinearAttention", 1, domain=OWN)
def quantized_attention(
    q: Tensor,
    q_scale: Parameter,
    q_zero_point: Parameter,
    k: Tensor,
    k_scale: Parameter,
    k_zero_point: Parameter,
    scores_scale: Parameter,
    scores_zero_point: Parameter,
    weights_scale: Parameter,
    weights_zero_point: Parameter,
    v: Tensor,
    v_scale: Parameter,
    v_zero_point: Parameter,
    y_scale: Parameter,
    y_zero_point: Parameter,
    /,
    *,
    heads_last: int = 0,
    arithmetic: Arithmetic,
) -> Any:
    """Multiplies queries by keys, and the softmax of each row by values.

    Outputs are (..., heads, rows, columns), or where `heads_last` is 1 (..., rows, heads, columns).
    """
    queries = (q, q_scale, q_zero_point, k, k_scale, k_zero_point, scores_scale, scores_zero_point)
    values = (weights_scale, weights_zero_point, v, v_scale, v_zero_point, y_scale, y_zero_point)
    return attend(queries, values, heads_last, arithmetic)


_Queries = tuple[Any, Any, Any, Any, Any, Any, Any, Any]  # QLinearMatMul's
_Values = tuple[Any, Any, Any, Any, Any, Any, Any]  # the same but the first


def attend(
    queries: _Queries,
    values: _Values,
    heads_last: int,
    arithmetic: Arithmetic,
    implementation: Any = "auto",
) -> Any:
    """Computes an attention, of the operands of its first product and then of its second one."""
    of_weights = queries[6], values[0], values[1]
    if arithmetic == "exact" or capability.why_not("cuda"):
        scores = multiply_matrices(*queries, arithmetic=arithmetic)
        weights = tables.softmax(scores, *of_weights, arithmetic=arithmetic)
        output = multiply_matrices(weights, *values, arithmetic=arithmetic)
        return jnp.swapaxes(output, -2, -3) if heads_last else output
    bind: dict[str, Any] = {"arithmetic": arithmetic, "implementation": dispatch.Bind(plan=True)}
    of_scores, product = multiply_matrices(*queries, **bind)
    zeros = jnp.zeros(of_scores.output.shape, of_scores.output.dtype)  # in the place of results
    softmax, tables_of = tables.bind_softmax(zeros, *of_weights)
    of_values, second = multiply_matrices(zeros, *values, **bind)
    plan = AttentionPlan(of_scores, softmax, of_values, bool(heads_last))
    operands = Attention(product, tables_of._replace(input=None), second._replace(a=None))
    return dispatch.call(ATTENTION, plan, operands, implementation)


class Attention(NamedTuple):
    """The operands of the three; what one gives the next is absent."""

    scores: Product
    softmax: float32_softmax.Softmax
    values: Product


@dataclass(frozen=True)
class AttentionPlan:
    """All that is static of the three."""

    scores: ProductPlan
    softmax: float32_softmax.SoftmaxPlan
    values: ProductPlan
    heads_last: bool

    @property
    def input(self) -> Aval:
        """The dtype and the shape of the queries."""
        return self.scores.input

    @property
    def output(self) -> Aval:
        """The dtype and the shape of the output."""
        dtype, (*batch, rows, columns) = self.values.output
        if self.heads_last:
            *batch, heads = batch
            return Aval(dtype, (*batch, rows, heads, columns))
        return self.values.output

    def notes(self) -> list[str]:
        """The lines that `explain` adds."""
        return []

    def __str__(self) -> str:
        return f"{self.scores}; {self.softmax}; {self.values}"


def why_not(plan: AttentionPlan, platform: str) -> str | None:
    """The sentence that says why the kernels do not take the plan, or None."""
    products = plan.scores, plan.values
    for each in products:
        if why := mosaic_gpu.why_not(each, platform):
            return why
    if plan.output.size == 0 or plan.scores.output.size == 0:
        return "it is empty"
    if not all(map(mosaic_gpu.requantizes, products)):
        return "a product is requantized apart"
    return float32_softmax.why_not(plan.softmax, platform)


def _kernels(plan: AttentionPlan, operands: Attention) -> Array:
    """Runs the kernels on rows of whole chunks."""
    scores = mosaic_gpu.run_with_whole_rows(plan.scores, operands.scores)
    return finish(plan, operands, scores, mosaic_gpu.pack_by_kernel(plan.values, operands.values))


def finish(plan: AttentionPlan, operands: Attention, scores: Array, values: Any) -> Array:
    """Runs the kernels after the first product, on its whole rows and on values, packed or not."""
    weights = float32_softmax.run_kernel(plan.softmax, operands.softmax._replace(input=scores))
    run = mosaic_gpu.run_with_heads_last if plan.heads_last else mosaic_gpu.run
    return run(plan.values, operands.values._replace(a=weights, b=values))


def _one_by_one(plan: AttentionPlan, operands: Attention) -> Array:
    """Runs each as it runs alone."""
    scores = dispatch.call(QUANTIZED, plan.scores, operands.scores, "auto")
    softmax = operands.softmax._replace(input=scores)
    weights = dispatch.call(float32_softmax.SOFTMAX, plan.softmax, softmax, "auto")
    values = operands.values._replace(a=weights)
    output: Array = dispatch.call(QUANTIZED, plan.values, values, "auto")
    return jnp.swapaxes(output, -2, -3) if plan.heads_last else output


def _partition(plan: AttentionPlan, operands: Attention) -> tuple[Any, ...]:
    """The output is split over a mesh as the queries are."""
    rank = len(plan.output.shape)
    if plan.input.shape[:-1] != plan.values.output.shape[:-1]:
        return (None,) * rank
    *batch, heads, rows, _ = (None, *compat.partition(operands.scores.a))[-rank - 1 :]
    first = (*batch, rows, heads) if plan.heads_last else (*batch, heads, rows)
    return *first[-rank + 1 :], None


ATTENTION = dispatch.Operator(
    "quantized_attention",
    (
        dispatch.kernel("mosaic_gpu", _kernels, why_not, "cuda"),
        dispatch.Lowering("xla", _one_by_one),
    ),
    partition=_partition,
)
