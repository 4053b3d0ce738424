"""Functions of `dmlax.training` are written as the operators that they stand for."""

import jax.numpy as jnp
import numpy as np
import pytest

import dmlax.onnx
from dmlax import training
from support import exports

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 3, (6, 8)).astype(np.float32)
W = GENERATOR.normal(size=(8, 8)).astype(np.float32)
SCALES = {"a_scale": 0.02, "a_zero_point": np.uint8(60), "b_scale": 0.03, "output_scale": 0.1}


def types(model):
    return [node.op_type for node in model.graph.node]


def network(x):
    y = training.quantized_linear_matrix_multiply(
        x, W, **SCALES, output_zero_point=np.uint8(100), arithmetic="float32"
    )
    of_y = {"a_scale": 0.1, "a_zero_point": np.uint8(100), "b_scale": 0.1, "output_scale": 0.2}
    return training.element_wise_quantized_linear_add(
        y, y, **of_y, b_zero_point=np.uint8(100), arithmetic="float32"
    )


def test_what_one_operator_returns_the_next_one_reads():
    model = exports.check(network, X, forms=["qoperator"])
    operators = ["QLinearMatMul", "QLinearAdd"]
    assert types(model) == ["QuantizeLinear", *operators, "DequantizeLinear"]


def in_between(scale, zero_point, axis, scale_2, zero_point_2, axis_2, move=lambda x: x):
    """A function that dequantizes and quantizes again."""

    def function(x):
        real = move(dmlax.element_wise_dequantize_linear(x, scale, zero_point, axis=axis))
        return dmlax.element_wise_quantize_linear(
            real, scale_2, zero_point_2, axis=axis_2, arithmetic="float32"
        )

    return function


ONE, ROWS = jnp.float32(0.1), jnp.linspace(0.1, 0.2, 8, dtype=jnp.float32)
ZERO = np.uint8(3)
SAME = (ONE, ZERO, None, ONE, ZERO, None)


@pytest.mark.parametrize(
    ("arguments", "is_dropped"),
    [
        (SAME, True),
        ((ROWS, ZERO, 1, ROWS, ZERO, 1), True),
        ((ROWS, ZERO, 1, ROWS, ZERO, 0), False),
        ((ONE, ZERO, None, jnp.float32(0.17), ZERO, None), False),
        ((ONE, ZERO, None, ONE, np.uint8(4), None), False),
        ((ONE, ZERO, None, ONE, np.int8(3), None), False),
        ((*SAME, lambda x: jnp.broadcast_to(x, (2, 8, 8))), False),
        ((*SAME, jnp.negative), False),
    ],
    ids=["same", "rows", "axis", "scale", "zero_point", "dtype", "broadcast", "negative"],
)
def test_a_pair_that_changes_nothing_is_dropped(arguments, is_dropped):
    x = GENERATOR.integers(0, 256, (8, 8)).astype(np.uint8)
    model = exports.check(in_between(*arguments), x)
    assert ("QuantizeLinear" not in types(model)) == is_dropped


@pytest.mark.parametrize("scale", [np.float32(3e38), np.float16(0.1)])
def test_a_pair_that_may_overflow_or_round_stays(scale):
    """255 times 3e38 is infinite, and float16 has 11 bits."""
    function = in_between(*(scale, ZERO, None) * 2)
    assert "QuantizeLinear" in types(dmlax.onnx.from_jax(function, np.ones(3, np.uint8)))
