"""Which layers become one operator with the sum that reads them."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

import dmlax
import dmlax.onnx
from dmlax._fused.matmul_epilogue.call import MATMUL_ADD
from dmlax.quantization import Rule, quantize

DRAW = np.random.default_rng(0)
X = jnp.float32(DRAW.normal(size=(2, 5, 5, 4)))
W = {name: jnp.float32(DRAW.normal(size=(3, 3, 4, 4))) for name in "ab"}


def convolve(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def of(function, params=W):
    quantized = quantize(function, params, [X])
    names = [call.operator.removeprefix("quantized_linear_") for call in calls(quantized)]
    trained = jax.jit(quantized.training())(params, X)
    assert np.array_equal(jax.jit(quantized)(X), trained)
    return quantized, names[1:-1]


def calls(quantized):
    return dmlax.explain(quantized, X).calls


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda p, x: x + convolve(x, p["a"]), ["convolution_add"]),
        (lambda p, x: jax.nn.relu(convolve(x, p["a"]) + x), ["convolution_add"]),
        (
            lambda p, x: convolve(x, p["a"]) + convolve(x, p["b"]),
            ["convolution", "convolution_add"],
        ),
        (
            lambda p, x: (y := convolve(x, p["b"]))[:, :1] + convolve(y, p["a"]),
            ["convolution", "convolution", "add"],  # it broadcasts
        ),
        (lambda p, x: 1.0 + x @ p["a"][0, 0] + x, ["matrix_multiply", "add"]),
    ],
)
def test_a_sum_takes_the_layer_that_it_alone_reads(function, expected):
    quantized, names = of(function)
    assert [x.removeprefix("element_wise_quantized_linear_") for x in names] == expected
    kinds = [x.operator for x in quantized.report.lines]
    assert kinds[-1] == "sum"
    assert all(x.signal_to_noise > 25 for x in quantized.report.lines)


@pytest.mark.parametrize(
    "function",
    [
        lambda p, x: (y := convolve(x, p["a"])) + y.transpose(0, 2, 1, 3),
        lambda p, x: (x + (y := convolve(x, p["a"])), y),
        lambda p, x: x + jnp.tanh(convolve(x, p["a"])),
    ],
)
def test_a_result_with_other_readers_stays_a_layer(function):
    quantized = quantize(function, W, [X])
    names = [call.operator for call in calls(quantized)]
    assert "quantized_linear_convolution_add" not in names
    assert "element_wise_quantized_linear_add" in names


@pytest.mark.parametrize("residual_first", [False, True])
def test_a_product_and_a_sum_are_one_call_where_a_kernel_is_and_two_nodes(
    residual_first, monkeypatch
):
    def function(p, x):
        y = x @ p["a"][0, 0]
        return x + y if residual_first else y + x

    quantized = quantize(function, W, [X], rules=[Rule(bits=7)], arithmetic="float32")
    expected = jax.jit(quantized)(X)
    monkeypatch.setattr(sys.modules[quantize.__module__], "multiply_and_add", MATMUL_ADD.call)
    names = [call.operator for call in calls(quantized)]
    assert "quantized_linear_matrix_multiply_add" in names
    file = dmlax.onnx.from_jax(quantized, X, input_names=["x"])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    (theirs,) = session.run(None, {"x": np.asarray(X)})
    assert np.array_equal(theirs, expected)
    assert np.array_equal(jax.jit(lambda x: quantized(x))(X), expected)
