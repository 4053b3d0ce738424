"""Operators that passes write: several of ONNX's in one call, for which a GPU has kernels."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

import dmlax
from dmlax._compile import has_kernels
from dmlax._core.requantize import Arithmetic
from dmlax._fused.attention.call import ATTENTION
from dmlax._fused.layer_normalization.call import LAYER_NORMALIZATION
from dmlax._fused.layer_normalization.plan import LayerNormalization
from dmlax._fused.matmul_epilogue.call import (
    MATMUL_ADD,
    MATMUL_LOOKUP,
    multiply_and_add,
    multiply_and_look_up,
)
from dmlax._fused.self_attention.call import SELF_ATTENTION
from dmlax._fused.self_attention.plan import Layout
from dmlax._operators.add_multiply.api import ADD
from dmlax._operators.matmul.api import QUANTIZED
from dmlax.onnx.graph import OWN, Node
from dmlax.onnx.operators import floats, quantized, tables
from dmlax.onnx.operators.quantized import (
    GemmFactors,
    multiply_gemm,
    multiply_matrices,
    parameters_of,
)
from dmlax.onnx.operators.table import Output, Parameter, Quantized, Tensor, operator
from dmlax.onnx.operators.values import is_known

_MOST_AXES = 8  # the highest rank of the element-wise operators


@operator("QGemmAdd", 1, domain=OWN)
def quantized_gemm_add(
    a: Quantized,
    b: Quantized,
    bias: Tensor | None,
    y: Output,
    addend: Quantized,
    sum: Output,
    *,
    addend_first: int = 0,
    factors: GemmFactors,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies matrices, and adds a residual of as many elements, whose shape the sum has."""
    plan, product = multiply_gemm(a, b, bias, y, factors, arithmetic, QUANTIZED.plan)
    placeholder = jnp.zeros(addend.values.shape, plan.output.dtype)
    terms = [Quantized(placeholder, *y), addend]
    first, second = terms[::-1] if addend_first else terms
    parameters = parameters_of(a=first, b=second, output=sum)
    sum_plan, addends = ADD.plan(first.values, second.values, arithmetic=arithmetic, **parameters)
    add = sum_plan, ADD.with_table(sum_plan, addends)
    return multiply_and_add(*MATMUL_ADD.plan((plan, product), add, bool(addend_first)))


@operator("QGemm", 1, domain=OWN)
def quantized_gemm_function(
    a: Quantized,
    b: Quantized,
    bias: Tensor | None = None,
    y: Output | None = None,
    *constants: Parameter,
    nodes: tuple[Node, ...],
    names: tuple[str, ...],
    factors: GemmFactors,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies matrices, and looks up the value that nodes compute of every byte."""
    product = multiply_gemm(a, b, bias, y, factors, arithmetic, QUANTIZED.plan)
    dtype = product[0].output.dtype
    table = tables.of_function(dtype, names, nodes, constants, arithmetic)
    return multiply_and_look_up(*MATMUL_LOOKUP.plan(product, table))


@operator("QLinearAttention", 1, domain=OWN)
def quantized_attention(
    q: Quantized,
    k: Quantized,
    scores: Output,
    weights: Output,
    v: Quantized,
    y: Output,
    *,
    heads_last: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies queries by keys, and the softmax of each row by values.

    Outputs are (..., heads, rows, columns), or where `heads_last` is 1 (..., rows, heads, columns).
    """
    if has_kernels() and arithmetic != "exact":
        return ATTENTION.call(*_plan_attention(q, k, scores, weights, v, y, heads_last))
    levels = multiply_matrices(q, k, scores, arithmetic)
    shares = tables.softmax(levels, scores.scale, *weights, arithmetic=arithmetic)
    output = multiply_matrices(Quantized(shares, *weights), v, y, arithmetic)
    return jnp.swapaxes(output, -2, -3) if heads_last else output


def _plan_attention(
    q: Quantized,
    k: Quantized,
    scores: Output,
    weights: Output,
    v: Quantized,
    y: Output,
    heads_last: int,
) -> Any:
    """Plans an attention with ONNX Runtime's bits; see `dmlax._fused.attention.plan.plan`."""
    product = multiply_matrices(q, k, scores, "float32", QUANTIZED.plan)
    # Stands for the results between the products.
    levels = jnp.zeros(product[0].output.shape, product[0].output.dtype)
    softmax = tables.plan_softmax(levels, scores.scale, *weights)
    values = multiply_matrices(Quantized(levels, *weights), v, y, "float32", QUANTIZED.plan)
    return ATTENTION.plan(product, softmax, values, bool(heads_last))


class Function(NamedTuple):
    """A function of a byte of the queries, the keys or the values; without nodes the identity."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]  # the names of the source and of the constants

    def table(
        self, dtype: np.dtype, constants: Mapping[str, Tensor], arithmetic: Arithmetic
    ) -> Tensor:
        """The results for all bytes."""
        if not self.nodes:
            limits = np.iinfo(dtype)
            return np.arange(limits.min, limits.max + 1).astype(dtype)
        return tables.of_nodes(dtype, self.names[0], self.nodes, constants, arithmetic)


@operator("QLinearSelfAttention", 1, domain=OWN)
def quantized_self_attention(
    a: Quantized,
    b: Quantized,
    bias: Tensor | None,
    y: Output,
    q: Output,
    k: Output,
    scores: Output,
    weights: Output,
    v: Output,
    output: Output,
    *constants: Parameter,
    functions: tuple[Function, ...],
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    row: int = -1,
    factors: GemmFactors,
    heads_last: int = 0,
    arithmetic: Arithmetic,
) -> Array:
    """Multiplies rows by three matrices in one, and attends to the result, (images, ...).

    `functions` are of the queries, the keys and the values, `names` those of the constants, and
    `sizes` the rows of an image, the heads, and the columns of a head. From 0 on `row` is that of
    the only query of each image.
    """
    images_rows, heads, columns = sizes
    layout = Layout(images_rows, heads, columns, row)
    plan, product = multiply_gemm(a, b, bias, y, factors, arithmetic, QUANTIZED.plan)
    known = dict(zip(names, constants, strict=True))
    dtype = plan.output.dtype
    maps = [function.table(dtype, known, arithmetic) for function in functions]
    if has_kernels() and arithmetic != "exact":
        zeros = layout.placeholders(plan.output, maps)
        queries, keys, values = map(Quantized, zeros, *zip(q, k, v, strict=True))
        attention = _plan_attention(queries, keys, scores, weights, values, output, heads_last)
        return SELF_ATTENTION.call(*SELF_ATTENTION.plan((plan, product), maps, attention, layout))
    parts = layout.split(QUANTIZED.call(plan, product))
    mapped = [_look_up(part, table) for part, table in zip(parts, maps, strict=True)]
    mapped[1] = jnp.swapaxes(mapped[1], -1, -2)
    queries, keys, values = map(Quantized, mapped, *zip(q, k, v, strict=True))
    return quantized_attention(
        *(queries, keys, scores, weights, values, output),
        heads_last=heads_last,
        arithmetic=arithmetic,
    )


def _look_up(x: Array, table: Tensor) -> Array:
    """A function of each byte; `x` itself if the table is known to be the identity."""
    identity = np.sort(np.arange(256).astype(np.uint8).view(table.dtype))
    is_same = x.dtype == table.dtype and is_known(table) and np.array_equal(table, identity)
    return x if is_same else dmlax.quantized_lookup(x, table)


@operator("QuantizedLayerNormalization", 1, domain=OWN)
def normalize(
    x: Quantized,
    scale: Tensor,
    bias: Tensor | None,
    y: Output,
    *,
    epsilon: float = 1e-5,
    arithmetic: Arithmetic,
) -> Array:
    """Dequantizes, normalizes the last axis, and quantizes."""
    assert x.zero_point is not None
    assert y.zero_point is not None
    scales = np.asarray([x.scale.item(), y.scale.item()])
    has_scales = bool(np.isfinite(scales).all() and scales.all())
    if x.values.ndim <= _MOST_AXES and has_scales and floats.are_columns(x.values, scale, bias):
        addend = None if bias is None else jnp.asarray(bias)
        operands = LayerNormalization(jnp.asarray(x.values), jnp.asarray(scale), addend)
        call = LAYER_NORMALIZATION.plan(
            operands,
            (float(x.scale.item()), int(x.zero_point.item())),
            (float(y.scale.item()), int(y.zero_point.item())),
            np.dtype(y.zero_point.dtype),
            epsilon=epsilon,
            arithmetic=arithmetic,
        )
        return LAYER_NORMALIZATION.call(*call)
    real = quantized.dequantize(*x, arithmetic=arithmetic)
    normal, *_ = floats.normalize(real, scale, bias, epsilon=epsilon)
    output: Array = quantized.quantize(normal, *y, version=10, arithmetic=arithmetic)
    return output
