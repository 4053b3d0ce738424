"""Every primitive at edge values, in every dtype: ONNX Runtime beside JAX, by relative error."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.export.primitives import COMPOSED, RULES
from support import exports
from tools.differential import functions


@pytest.mark.parametrize("dtype", functions.DTYPES, ids=str)
def test_edge_values(dtype):
    """Edge values, and arrays without elements, in the default opset."""
    assert functions.check_together(dtype, None) == []


def test_every_rule_is_tried():
    """By the functions above, by `test_primitives`, or by `test_orders_of_floats`."""
    seen = {"add_any", "dim_as_value", "iota", "eq_to", "le_to"}

    def note(name, rule):
        return lambda *args: (seen.add(name), rule(*args))[1]

    with mock.patch.dict(RULES, {name: note(name, rule) for name, rule in RULES.items()}):
        for dtype in map(np.dtype, ("bool", "int32", "float32")):
            for name in functions.names_of(dtype):
                function = functions.function_of(name)
                dmlax.onnx.from_jax(
                    lambda *xs, f=function: f(*xs), *functions.arguments(name, dtype)
                )
    older = {"one_minus_square", "lt_to", "le_to", "eq_to", "call_hi_primitive", "tile"}
    assert RULES.keys() - seen <= (older if jax.__version_info__ < (0, 12) else set())


def test_orders_of_floats():
    x = np.float32([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    places, (a, b) = np.arange(7), np.meshgrid(x, x, indexing="ij")
    for name, order in {"lt_to": np.less, "le_to": np.less_equal, "eq_to": np.equal}.items():
        (found,) = exports.run(
            dmlax.onnx.from_jax(lambda a, b, f=COMPOSED[name]: f(None, a, b), a, b), [a, b]
        )
        assert (found == order.outer(places, places)).all(), name


@pytest.mark.parametrize("start", range(0, 20, 10))
def test_random_functions(start):
    """A slice of `python -m tools.differential --from-jax`."""
    found = [functions.check(seed) for seed in range(start, start + 10)]
    assert [why for verdict, why in found if verdict != "right"] == []


def compare(function, *inputs, opset=None, tolerance=0):
    """Expects JAX's values of an export in ONNX Runtime."""
    model = dmlax.onnx.from_jax(function, *inputs, opset=opset)
    expected = jax.tree.leaves(jax.jit(function)(*inputs))
    assert exports.count_different(expected, exports.run(model, inputs), tolerance) == 0
    return model


KNOWN = np.float32([-20, 1e-8, 4, 0.49999997, 8388609, 3e9, -3e9, np.nan, np.inf, -0.0])


def test_values_that_naive_formulas_lose():
    model = dmlax.onnx.from_jax(lambda x: (jax.nn.softplus(x), jnp.expm1(x), lax.erfc(x)), KNOWN)
    softplus, expm1, erfc = exports.run(model, [KNOWN])
    np.testing.assert_allclose(softplus[0], 2.0611537e-09, 1e-6)
    np.testing.assert_allclose(expm1[1], 1e-8, 1e-6)
    np.testing.assert_allclose(erfc[2], 1.5417258e-08, 1e-6)


def test_floats_saturate_to_integers():
    compare(lambda x: [x.astype(d) for d in functions.DTYPES if d.kind in "biu"], KNOWN)


def test_division_by_zero_and_overflow():
    x = np.int32([-(2**31), 7, -7, 0])
    divisors = np.int32([-1, 0, -1, 0])
    compare(lambda x, y: (lax.div(x, y), lax.rem(x, y), x // y, x % y), x, divisors)
    model = compare(lambda x: lax.div(x, jnp.int32(3)), x)
    assert [node.op_type for node in model.graph.node] == ["Div"]


def test_sums_and_products_of_integers_wrap():
    """ONNX Runtime computes them in float64, and saturates."""
    x = np.full((3, 4), 2**31 - 3, np.int32)
    compare(lambda x: (x.sum(), x.sum(1), x.prod(0), x.prod(), x.astype(jnp.uint32).sum()), x)


def test_nan_wins_wherever_it_is():
    x = np.float32([[1, np.nan, 3, np.nan], [np.inf, np.nan, 0, 1], [1, 2, 5, 5]])
    compare(lambda x: (x.argmax(1), x.argmin(1), x.argmax(0), jnp.argmin(x)), x)


def test_scans_of_no_steps():
    def function(x):
        return lax.scan(lambda carry, row: (carry + row, carry * row), x[0], x[:0])

    compare(function, np.ones((3, 2), np.float32))
    compare(lambda x: lax.fori_loop(0, 0, lambda i, y: y + x[i], x[0]), np.ones((3, 2), np.float32))


def test_no_elements():
    def function(x):
        return x.sum(1), x.max(0, initial=-3), (x > 0).all(1), x @ x.T, jnp.pad(x, 1), x.prod()

    for shape in ((0, 4), (4, 0)):
        compare(function, np.zeros(shape, np.float32))
        compare(lambda x: (lax.reduce_max(x, (1,)), lax.reduce_and(x, (0,))), np.zeros(shape, "i1"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("opset", [None, 20, 21, 23])
def test_dequantized_tensors_move(dtype, opset):
    """ONNX Runtime quantizes moves of dequantized tensors, and fails for int8 and int32."""
    if opset == 20 and dtype in ("int16", "uint16"):
        return

    def function(x):
        y = dmlax.element_wise_dequantize_linear(x, np.float32(0.1), np.array(3, x.dtype))
        z = dmlax.element_wise_dequantize_linear(x, np.float32(0.1))
        return y.T + 1, z.T, z[::2], z[:, ::-1], z.reshape(-1), z.reshape(2, 2, 6).T + 1, z

    x = functions.edges(dtype)[-8:].reshape(4, 2).repeat(3, 1)
    model = compare(function, x, opset=opset, tolerance=1e-6)
    wide = dtype in ("int16", "uint16")
    assert model.opset_import[0].version == (opset or (21 if wide else 20))


def reduce_or_and(x):
    return lax.reduce_and(x, (0,))


@pytest.mark.parametrize(
    ("function", "dtype", "opset", "reason"),
    [
        (lambda x: x & 3, "i1", 13, "and needs opset 18 or later, for BitwiseAnd of int8"),
        (reduce_or_and, "i2", 13, "reduce_and needs opset 18 or later, for BitwiseAnd of int16"),
        (
            lambda x: dmlax.element_wise_dequantize_linear(x, 0.5),
            "i2",
            20,
            "needs opset 21 or later, for DequantizeLinear of int16 to float32",
        ),
        (
            lambda x: dmlax.element_wise_dequantize_linear(x, 0.5),
            "u4",
            None,
            "needs DequantizeLinear of uint32 to float32, which ONNX lacks",
        ),
        (lambda x: x.astype(jnp.int4) + 1, "i1", None, "convert_element_type of int4 is not"),
        (lambda x: x.astype(jnp.float8_e5m2), "f4", None, "of float8_e5m2 is not supported"),
        (lambda x: x * 1j, "c8", None, "mul of complex64 is not supported"),
    ],
)
def test_refusals_name_the_line(function, dtype, opset, reason):
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.from_jax(function, np.zeros(3, dtype), opset=opset)
    line = f"at {__file__}:{function.__code__.co_firstlineno + (function is reduce_or_and)}"
    assert reason in str(caught.value)
    assert line in str(caught.value)


def test_float64_that_onnxruntime_lacks():
    x = np.linspace(-2, 2, 9)
    with jax.enable_x64(True):
        compare(lambda x: (jnp.expm1(x), x.astype(jnp.int64), jnp.argmax(x)), x, tolerance=1e-14)
        with pytest.raises(dmlax.UnsupportedError, match="erf needs Erf of float64, which ONNX R"):
            dmlax.onnx.from_jax(lax.erf, x)


def test_bfloat16_inputs_load():
    model = dmlax.onnx.from_jax(lambda x: jnp.tanh(x + 1).T, jnp.ones((2, 3), jnp.bfloat16))
    onnx.checker.check_model(model, full_check=True)
    peer.start(model.SerializeToString())
