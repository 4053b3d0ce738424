"""Plain JAX: exports give its values in ONNX Runtime, and again when they are loaded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dmlax.onnx
from support import exports

RANDOM = np.random.default_rng(0)
FLOATS = RANDOM.normal(0, 2, (4, 6)).astype(np.float32)
BYTES = {dtype: np.arange(-12, 12).reshape(4, 6).astype(dtype) for dtype in (np.int8, np.uint8)}
IMAGE = RANDOM.normal(0, 1, (2, 8, 9, 4)).astype(np.float32)
NUMBERS = ("NHWC", "HWIO", "NHWC")


def moves(x, places, start):
    """Moves, which keep every bit, and indexing of every kind."""
    start_in = jnp.clip(start, 0, 2)
    return (
        jnp.concatenate([x[::-1].T.reshape(6, -1), jnp.pad(x, ((1, 1), (0, 0)))[:, :4]], 0),
        lax.pad(x, jnp.zeros((), x.dtype), ((-1, 2, 0), (0, -2, 0))),
        x[::2, 1:5:3],
        jnp.roll(x, 2, 1),
        jnp.tile(x, (2, 3)),
        jnp.broadcast_to(x.T, (2, 6, 4)).transpose(2, 1, 0),
        jnp.repeat(x, 3, axis=1),
        *jnp.split(x, 3, axis=1),
        *jnp.unstack(x),
        jnp.stack([x, x[::-1]], 1),
        jnp.where(x > 1, x, x[0]),
        jnp.clip(x, 1, 3),
        x[places],
        x[places, ::-1],
        x[1:3, places],
        x[:, start],
        x[1:, None, -2],
        jnp.take(x, places, axis=1),
        jnp.take(x, places, axis=1, mode="clip"),
        x.at[places * 9, 2].get(mode="fill"),
        jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1),
        jax.vmap(lambda row, place: row[place], (0, None))(x, places),
        jax.vmap(lambda i: lax.dynamic_slice(x, (i, 1), (2, 3)))(places),
        lax.dynamic_slice(x, (start, 0), (2, 6)),
        lax.dynamic_update_slice(x, x[:2, :3] + 1, (start_in, start)),
    )


def arithmetic(x):
    """Element-wise operations and reductions."""
    y = x[::-1]
    quotient = lax.div(x, jnp.where(y == 0, 1, y).astype(x.dtype))
    return (
        *(x + y, x - y, x * y, jnp.maximum(x, y), jnp.minimum(x, y), quotient, abs(x), jnp.sign(x)),
        *(x == y, x != y, x < y, x <= y, x > y, x >= y, (x > 1) & ~(y > 1), (x > 1) ^ (y > 1)),
        *(x.max(1), x.min((0, 1)), x.sum(0), x[:, :2].prod(1), jnp.argmax(x, 1), jnp.argmin(x, 0)),
        *((x > 1).any(1), (x > 1).all(0), jnp.cumsum(x, 1), lax.cumsum(x, 0, reverse=True)),
        *(x.astype(dtype) for dtype in (np.float32, np.int32, np.int8, np.uint8, np.bool_)),
        lax.select_n((x > 0).astype(jnp.int32) + (x > 3).astype(jnp.int32), x, y, x + y),
    )


def integers(x):
    products = lax.dot_general(x, x.T, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    images = x.reshape(1, 1, 4, 6)
    options = {"window_strides": (2, 1), "padding": "VALID", "preferred_element_type": jnp.int32}
    sums = lax.conv_general_dilated(images, images[..., :2, :2], **options)
    lowest = np.asarray(np.iinfo(x.dtype).min, x.dtype)
    pooled = lax.reduce_window(images, lowest, lax.max, (1, 1, 2, 3), (1, 1, 2, 2), "SAME")
    wide = x.astype(jnp.int32)
    return products, sums, pooled, wide @ wide.T, x & 3, x | 3, ~x, x % 3, x // 3


@pytest.mark.parametrize("dtype", BYTES)
def test_integers_have_the_same_bits(dtype):
    def function(x):
        return arithmetic(x), integers(x)

    exports.check(function, BYTES[dtype], forms=["qdq"])


def test_moves_have_the_same_bits():
    places = np.array([1, 3], np.int32)
    exports.check(moves, BYTES[np.int8], places, np.int32(1), forms=["qdq"])


def element_wise(x):
    positive = abs(x) + 0.1
    return (
        *(jnp.floor(x), jnp.ceil(x), jnp.round(x), lax.round(x), jnp.exp(x), jnp.log(positive)),
        *(jnp.tanh(x), jnp.sqrt(positive), lax.rsqrt(positive), jnp.cbrt(x), jnp.log1p(positive)),
        *(jnp.expm1(x), jnp.exp2(x), lax.erf(x), lax.erfc(x), jnp.isfinite(x / 0), positive**2.5),
        *(jnp.sin(x), jnp.arctan(x), jnp.sinh(x), x**3, jax.nn.gelu(x), jax.nn.silu(x)),
        *(jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.elu(x), x.mean(1), jnp.var(x, 0)),
        x + jnp.arange(6.0) + jnp.eye(6)[1],
        jnp.tril(x),
        lax.rem(x, jnp.float32(0.7)),
    )


@jax.custom_vjp
def straight_through(x):
    return jnp.round(x)


straight_through.defvjp(lambda x: (x, ()), lambda _, cotangent: (cotangent,))


def control(x):
    """Programs in programs."""
    return (
        lax.scan(lambda carry, y: (carry + y, carry * y), x[0], x),
        lax.scan(lambda carry, y: (carry + y, carry * y), x[0], x, reverse=True),
        lax.fori_loop(0, 3, lambda i, carry: carry * 2 + x[i], x[0]),
        lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v - 1, x),
        lax.switch((x[0, 0] > 0).astype(jnp.int32) + 1, [jnp.sin, jnp.cos, jnp.abs], x),
        jax.checkpoint(jnp.sin)(x),
        jax.grad(lambda x: jnp.tanh(x @ jnp.ones((6, 2))).sum())(x),
        jax.nn.relu6(x),
        straight_through(x),
    )


def test_onnxruntime_multiplies_by_an_inverse():
    """JAX divides by `y` where a file multiplies by `Div(1, y)`."""
    x, y = (np.random.default_rng(i).uniform(1, 2, (20, 20)).astype(np.float32) for i in range(2))
    exports.check(lambda x, y: x * (1 / y), x, y, forms=["qdq"])


def test_floats_are_close():
    def function(x):
        return arithmetic(x), element_wise(x), control(x)

    exports.check(function, FLOATS, forms=["qdq"], tolerance=2e-5)


EQUATIONS = {
    "ab,bc->ac": ((3, 4), (4, 5)),
    "zab,bc->zac": ((2, 3, 4), (4, 5)),
    "zab,zcb->zac": ((2, 3, 4), (2, 5, 4)),
    "a,a->": ((4,), (4,)),
    "zabc,bcd->zad": ((2, 3, 4, 5), (4, 5, 6)),
    "bqhd,bkhd->bhqk": ((2, 7, 3, 4), (2, 9, 3, 4)),
    "a,b->ab": ((3,), (4,)),
}


def test_products_and_windows_are_close():
    pairs = [
        [RANDOM.normal(0, 1, shape).astype(np.float32) for shape in shapes]
        for shapes in EQUATIONS.values()
    ]

    def function(image, pairs):
        filter = jnp.ones((3, 3, 2, 6)) * jnp.arange(6.0)
        options = {"rhs_dilation": (1, 2), "dimension_numbers": NUMBERS, "feature_group_count": 2}
        windows = (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        return (
            [jnp.einsum(text, *pair) for text, pair in zip(EQUATIONS, pairs, strict=True)],
            lax.conv_general_dilated(image, filter, (2, 1), "SAME", **options),
            lax.reduce_window(image, -jnp.inf, lax.max, *windows),
            lax.reduce_window(image, 0.0, lax.add, *windows) / 9,
            jax.nn.dot_product_attention(image, image, image, is_causal=True),
        )

    exports.check(function, IMAGE, pairs, forms=["qdq"], tolerance=1e-4)


def test_sizes_may_be_dynamic():
    """A model of dynamic sizes runs with other sizes than those of its export."""

    def function(x):
        count, width = x.shape
        return (
            *(
                x.mean(0),
                x.reshape(-1),
                x[1:],
                x[:, ::-1],
                x[-1],
                jnp.zeros((count, 2)) + x[:, -1:],
            ),
            x[: count // 2 * 2].reshape(count // 2, 2, width).sum(1),
            jnp.concatenate([x, x], 0).reshape(count * 2, -1),
            x + jnp.arange(count, dtype=jnp.float32)[:, None],
            jax.vmap(lambda row: jax.nn.softmax(row @ jnp.ones((width, width))))(x),
        )

    dynamic = {"x": {0: "n", 1: "m"}}
    model = dmlax.onnx.from_jax(function, FLOATS, dynamic=dynamic)
    sizes = [size.dim_param for size in model.graph.input[0].type.tensor_type.shape.dim]
    assert sizes == ["n", "m"]
    for x in (FLOATS, np.concatenate([FLOATS, FLOATS[:1]])[:, :5]):
        expected = jax.tree.leaves(function(x))
        assert exports.count_different(expected, exports.run(model, [x]), 2e-5) == 0
        assert exports.count_different(expected, exports.load(model, [x]), 2e-5) == 0


def test_broadcasts_and_transposes_add_no_nodes():
    bias = np.arange(6, dtype=np.float32)

    def function(x):
        return ((x + bias) * jnp.ones((4, 6)) * 2).T.T

    model = exports.check(function, FLOATS, forms=["qdq"])
    assert [node.op_type for node in model.graph.node] == ["Add", "Mul", "Mul"]
    assert max(list(constant.dims) for constant in model.graph.initializer) == [6]
