"""A quantized function of inputs of other sizes than the batches'."""

import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from jax import lax

import dmlax
import dmlax.onnx
from dmlax.quantization import Rule, quantize

draw = np.random.default_rng(0)


def normal(*shape):
    return jnp.float32(draw.normal(size=shape))


PARAMS = {"in": normal(8, 16), "bias": normal(16), "token": normal(1, 1, 16), "out": normal(16, 4)}
X = normal(32, 4, 8)
RULES = [Rule(dtype="uint8", bits=7, per_channel=True)]


def attention(params, x):
    """Rows of parameters, repeated for each image in two ways, a norm in float, and a softmax."""
    y = jax.nn.relu(x @ params["in"] + params["bias"])
    row = jnp.broadcast_to(params["bias"], (x.shape[0], 1, 16))
    y = jnp.concatenate([jnp.tile(params["token"], (x.shape[0], 1, 1)), row, y], 1)
    y = y / jnp.sqrt(jnp.square(y).mean(-1, keepdims=True) + 1e-5) + jnp.zeros((x.shape[0], 1, 16))
    shares = jax.nn.softmax(jnp.einsum("nqd,nkd->nqk", y, y))
    return (jnp.einsum("nqk,nkd->nqd", shares, y) @ params["out"]).mean(1)


@pytest.fixture(scope="module")
def quantized():
    return quantize(attention, PARAMS, [X], rules=RULES, arithmetic="float32")


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_each_batch_size_has_the_bits_of_the_rows(quantized, rows):
    x = jnp.concatenate([X, X])[:rows]
    expected = jnp.concatenate([quantized(X)] * 2)[:rows]
    assert np.array_equal(jax.jit(quantized)(x), expected)
    assert np.array_equal(jax.jit(quantized.training())(PARAMS, x), expected)
    tuned = {name: value * 0.9 for name, value in PARAMS.items()}
    again = quantized.with_params(tuned)
    assert np.array_equal(again(x), jnp.concatenate([again(X)] * 2)[:rows])


def test_an_image_may_be_larger():
    def pooled(params, x):
        layout = "NHWC", "HWIO", "NHWC"
        y = lax.conv_general_dilated(x, params, (1, 1), "SAME", dimension_numbers=layout)
        return jax.nn.relu(y).mean((1, 2))

    kernel, image = normal(3, 3, 2, 4), normal(1, 6, 6, 2)
    function = quantize(pooled, kernel, [image])
    larger = jnp.tile(image, (1, 2, 2, 1))
    other = quantize(pooled, kernel, [larger])
    expected = replace(other, scales=function.scales, weights=function.weights)
    assert np.array_equal(function(larger), expected(larger))
    assert not np.array_equal(function(larger), function(image))


def test_a_file_has_an_open_batch(quantized):
    struct = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4, 8"), jnp.float32)
    file = dmlax.onnx.from_jax(quantized, struct, input_names=["x"])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    for rows in (1, 3, 32):
        (theirs,) = session.run(None, {"x": np.asarray(X[:rows])})
        assert np.array_equal(theirs, jax.jit(quantized)(X[:rows]))


def test_a_function_that_depends_on_the_size_is_refused():
    def function(params, x):
        y = x @ params
        return y if len(x) > 2 else y @ params

    quantized = quantize(function, normal(8, 8), [normal(4, 8)])
    assert quantized(normal(3, 8)).shape == (3, 8)
    text = (
        r"inputs have float32\[2,8\] at '0', expected float32\[4,8\], as quantized: quantize with"
    )
    with pytest.raises(dmlax.SpecError, match=text) as raised:
        quantized(normal(2, 8))
    assert (raised.value.code, raised.value.field) == ("sizes", "inputs")


@pytest.mark.parametrize("x", [normal(4, 8), jnp.ones((32, 4, 8), jnp.int32), (X, X)])
def test_other_ranks_dtypes_and_structures_are_refused(quantized, x):
    with pytest.raises(dmlax.SpecError, match=r"inputs (have|are of)"):
        quantized(x)


def test_what_was_pickled_takes_the_sizes_that_were_quantized(quantized):
    loaded = pickle.loads(pickle.dumps(quantized))
    assert np.array_equal(loaded(X), quantized(X))
    with pytest.raises(dmlax.SpecError, match=r"map by jax\.vmap"):
        loaded(X[:1])
