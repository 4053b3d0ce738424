"""Operators that `dmlax.onnx` calls over a mesh: a kernel's part, planned locally, has the bits."""

import dataclasses
import random
import re

import numpy as np
import pytest
from jax.sharding import PartitionSpec

from dmlax._core.dispatch import Lowering
from dmlax._fused.attention.call import ATTENTION
from dmlax._fused.concatenation.call import CONCATENATION
from dmlax._fused.float_convolution.call import FLOAT_CONVOLUTION
from dmlax._fused.float_convolution.plan import Geometry
from dmlax._fused.layer_normalization.call import LAYER_NORMALIZATION
from dmlax._fused.layer_normalization.plan import LayerNormalization
from dmlax._fused.matmul_epilogue.call import MATMUL_ADD, MATMUL_LOOKUP
from dmlax._fused.self_attention.call import SELF_ATTENTION
from dmlax._fused.self_attention.plan import Layout
from dmlax._fused.softmax.call import SOFTMAX
from dmlax._operators.add_multiply.api import ADD
from dmlax._operators.matmul.api import QUANTIZED
from support import OLDEST, assert_same, draw
from test_splitting import COLLECTIVE, MESHES, compiled, mesh_of, put, random_spec

IMAGES, ROWS, HEADS, WIDTH, DEPTH = 4, 3, 2, 8, 5
COLUMNS = HEADS * WIDTH
TABLE = draw(20, np.uint8, 256)
ZERO = np.uint8(120)
pytestmark = OLDEST


def multiply(a, b, bias=None, **parameters):
    scales = {"a_scale": np.float32(0.02), "b_scale": np.float32(0.01), **parameters}
    options = {"output_scale": np.float32(0.05), "output_zero_point": ZERO, "a_zero_point": ZERO}
    return QUANTIZED.plan(a, b, bias, arithmetic="float32", **{**options, **scales})


def product(columns=COLUMNS):
    a = draw(21, np.uint8, (IMAGES * ROWS, DEPTH))
    b, bias = draw(22, np.int8, (DEPTH, columns)), draw(23, np.int32, columns) >> 20
    scale = (np.arange(columns) % 7 + 1).astype(np.float32) / 100
    return multiply(a, b, bias, b_scale=scale)


def added(shape, first):
    terms = np.zeros((IMAGES, ROWS, COLUMNS), np.uint8), draw(24, np.uint8, shape)
    scales = dict.fromkeys(("a_scale", "b_scale", "output_scale"), np.float32(0.04))
    points = dict.fromkeys(("a_zero_point", "b_zero_point", "output_zero_point"), ZERO)
    total = ADD.plan(*terms[:: -1 if first else 1], arithmetic="float32", **scales, **points)
    return MATMUL_ADD, *MATMUL_ADD.plan(product(), total, first)


def attention(q, k, v, heads_last):
    scores, values = multiply(q, k), multiply(np.zeros((*q.shape[:-1], ROWS), np.uint8), v)
    softmax = SOFTMAX.plan(np.zeros((*q.shape[:-1], ROWS), np.uint8), 0.05, np.float32(1 / 256), 0)
    return ATTENTION.plan(scores, softmax, values, heads_last)


def heads(*shape):
    return draw(25, np.uint8, (IMAGES, HEADS, *shape))


def self_attention(row, heads_last):
    layout = Layout(ROWS, HEADS, WIDTH, row)
    of_product = product(3 * COLUMNS)
    parts = layout.placeholders(of_product[0].output, (TABLE,) * 3)
    inner = attention(*map(np.asarray, parts), heads_last)
    tables = TABLE, TABLE[::-1], TABLE
    return SELF_ATTENTION, *SELF_ATTENTION.plan(of_product, tables, inner, layout)


def normalization():
    operands = LayerNormalization(
        heads(WIDTH), np.linspace(0.5, 2, WIDTH, dtype=np.float32), np.ones(WIDTH, np.float32)
    )
    options = {"epsilon": 1e-5, "arithmetic": "float32"}
    made = LAYER_NORMALIZATION.plan(operands, (0.02, 3), (0.03, 4), np.dtype(np.uint8), **options)
    return LAYER_NORMALIZATION, *made


def convolution():
    """Integers, whose sums are exact in any order."""
    image = draw(26, np.int8, (IMAGES, 5, 5, DEPTH)).astype(np.float32)
    filter = draw(27, np.int8, (WIDTH, DEPTH, 3, 3)).astype(np.float32)
    residual = draw(28, np.int8, (IMAGES, 5, 5, WIDTH)).astype(np.float32)
    made = FLOAT_CONVOLUTION.plan(
        image,
        filter,
        bias=np.ones(WIDTH, np.float32),
        residual=residual,
        output_sizes=(5, 5),
        geometry=Geometry((1, 1), ((1, 1), (1, 1)), (1, 1)),
    )
    return FLOAT_CONVOLUTION, *made


CALLS = {
    "a sum with all of an addend": lambda: added((IMAGES, ROWS, COLUMNS), False),
    "a sum after an addend for all images": lambda: added((ROWS, COLUMNS), True),
    "a lookup": lambda: (MATMUL_LOOKUP, *MATMUL_LOOKUP.plan(product(), TABLE)),
    "an attention": lambda: (
        ATTENTION,
        *attention(heads(ROWS, WIDTH), heads(WIDTH, ROWS), heads(ROWS, WIDTH), False),
    ),
    "an attention with heads last": lambda: (
        ATTENTION,
        *attention(heads(ROWS, WIDTH), heads(WIDTH, ROWS), heads(ROWS, WIDTH), True),
    ),
    "a self-attention": lambda: self_attention(-1, True),
    "a self-attention of one query": lambda: self_attention(0, False),
    "a softmax": lambda: (
        SOFTMAX,
        *SOFTMAX.plan(heads(ROWS, WIDTH), 0.05, np.float32(1 / 256), 0),
    ),
    "a layer normalization": normalization,
    "a float convolution": convolution,
    "a concatenation": lambda: (
        CONCATENATION,
        *CONCATENATION.plan([heads(ROWS, WIDTH), heads(2, WIDTH)], 2),
    ),
}


def with_kernel(operator):
    """The operator with `xla` as its kernel on CPUs."""
    kernel = Lowering("native_cpu", operator.lowerings[-1].run, platforms=("cpu",))
    return dataclasses.replace(operator, lowerings=(kernel, *operator.lowerings))


@pytest.mark.parametrize(("shape", "kind"), MESHES, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_parts_have_the_bits_of_the_whole(name, shape, kind):
    operator, plan, operands = CALLS[name]()
    mesh, generator = mesh_of(shape, kind), random.Random(f"{name} {shape} {kind}")
    placed = put(mesh, operands, lambda sizes: random_spec(generator, mesh, sizes))
    kernel = with_kernel(operator)
    program, text = compiled(lambda operands: kernel.call(plan, operands), placed)
    assert_same(program(placed), operator.call(plan, operands))
    assert f"jit({operator.name})/custom_partitioning" in text


@pytest.mark.parametrize("name", CALLS)
def test_images_split_without_an_exchange(name):
    operator, plan, operands = CALLS[name]()
    mesh = mesh_of((2,), "Auto")
    first = IMAGES, IMAGES * ROWS
    spec = lambda sizes: PartitionSpec("a") if sizes[:1] and sizes[0] in first else PartitionSpec()  # noqa: E731
    placed = put(mesh, operands, spec)
    program, text = compiled(lambda x: with_kernel(operator).call(plan, x), placed)
    assert_same(program(placed), operator.call(plan, operands))
    assert not re.search(COLLECTIVE, text)
