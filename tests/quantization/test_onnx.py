"""Quantized functions as ONNX files: ONNX Runtime and dmlax.onnx give their bits."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import dmlax
import dmlax.onnx
from dmlax.quantization import Rule, quantize
from tests.quantization.test_quantize import Network


def network_of(seed):
    """A random network whose weights have 7 bits at most: ONNX Runtime saturates nowhere."""
    network = Network(seed)
    chosen = vars(network.rule) | {"bits": min(network.rule.bits, 7)}
    x = jnp.float32(network.draw.normal(size=network.shape))
    network.floats(None, x)
    options = {"rules": [Rule(**chosen)], "arithmetic": "float32"}
    return network, x, quantize(network.floats, network.params, [x], **options)


@pytest.mark.parametrize("seed", [2, 3, 8, 10])  # a norm, a residual, pools, a transpose; no tanh
def test_onnx_runtime_and_load_give_the_bits_of_a_quantized_network(seed):
    network, x, quantized = network_of(seed)
    expected = np.asarray(jax.jit(quantized)(x))
    for form in ("qdq", "qoperator"):
        file = dmlax.onnx.from_jax(quantized, x, input_names=["x"], form=form)
        session = onnxruntime.InferenceSession(file.SerializeToString())
        (theirs,) = session.run(None, {"x": np.asarray(x)})
        (loaded,) = dmlax.onnx.load(file, arithmetic="float32")(x=x).values()
        assert np.array_equal(theirs, expected), (form, network.layers)
        assert np.array_equal(loaded, expected), (form, network.layers)


def test_behind_a_float_island_each_difference_is_a_rounding_that_flips():
    def function(params, x):
        shares = jax.nn.softmax(x @ params["first"])
        return shares, shares @ params["last"]

    draw = np.random.default_rng(7)
    params = {name: jnp.float32(draw.normal(size=(16, 16))) for name in ("first", "last")}
    x = jnp.float32(draw.normal(size=(4096, 16)))
    quantized = quantize(function, params, [x], rules=[Rule(bits=7)], arithmetic="float32")
    of_shares = quantized.scales[sorted(quantized.scales)[2]]
    file = dmlax.onnx.from_jax(quantized, x, input_names=["x"])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    shares, products = jax.jit(quantized)(x)
    for theirs in (
        session.run(None, {"x": np.asarray(x)}),
        [*dmlax.onnx.load(file, arithmetic="float32")(x=x).values()],
    ):
        np.testing.assert_allclose(theirs[0], shares, rtol=1e-5)
        ours, other = (
            dmlax.element_wise_quantize_linear(jnp.asarray(y), *of_shares, arithmetic="float32")
            for y in (shares, theirs[0])
        )
        steps = np.asarray(ours, np.int32) - np.asarray(other, np.int32)
        assert np.abs(steps).max() <= 1
        near = np.abs(np.asarray(shares / of_shares.scale) % 1 - 0.5) < 1e-3
        assert near[steps != 0].all()
        rows = (np.asarray(theirs[1]) != np.asarray(products)).any(1)
        assert not rows[(steps == 0).all(1)].any()


def test_quotients_near_a_tie_have_the_bytes_of_the_arithmetic():
    draw = np.random.default_rng(3)
    params = jnp.float32(np.eye(4))
    x = jnp.float32(draw.uniform(-1, 1, size=(120, 4)))
    rounds = {"arithmetic": "float32"}
    quantized = quantize(
        lambda w, x: jax.nn.relu(x) @ w, params, [x], rules=[Rule(bits=7)], **rounds
    )
    scale, zero_point = quantized.scales[min(quantized.scales)]
    ties = np.float32(np.arange(-60, 60) + 0.5) * np.float32(scale)
    beside = [ties, np.nextafter(ties, -9, dtype="f"), np.nextafter(ties, 9, dtype="f"), ties]
    x = jnp.stack(beside, 1)
    given = jax.nn.relu(x), scale, zero_point
    exact, bytes_of = (dmlax.element_wise_quantize_linear(*given, **o) for o in ({}, rounds))
    assert (exact != bytes_of).sum() > 9
    real = dmlax.element_wise_dequantize_linear(bytes_of, scale, zero_point)
    expected = np.asarray(quantized(real))
    assert np.array_equal(quantized(x), expected)
    assert np.array_equal(quantized.training()(params, x), expected)
    file = dmlax.onnx.from_jax(quantized, x, input_names=["x"])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    assert np.array_equal(session.run(None, {"x": np.asarray(x)})[0], expected)


def test_explain_says_what_runs_where():
    network, x, quantized = network_of(4)
    explained = dmlax.explain(quantized, x)
    names = [call.operator for call in explained.calls]
    kinds = [kind for kind, _, _ in network.layers]
    assert kinds == ["convolution", "residual", "global", "product"]
    assert names == [
        "element_wise_quantize_linear",
        "quantized_linear_convolution",
        "quantized_linear_convolution_add",
        "quantized_linear_global_average_pooling",
        "quantized_linear_matrix_multiply",
        "element_wise_dequantize_linear",
    ]
    first, residual, product = network.params
    layers = [first, first, residual, "quantization/test_quantize.py", product]
    assert [x.layer.split("/kernel")[0].split(":")[0] for x in explained.calls] == [*layers, ""]
    assert str(explained).count(f"  {first}/kernel\n") == 2


def test_an_export_gives_the_bits():
    _, x, quantized = network_of(8)
    data = dmlax.export(quantized, platform="cpu")(x).serialize()
    assert np.array_equal(dmlax.deserialize(data).call(x), quantized(x))
    portable = jax.export.export(jax.jit(quantized))(x).serialize()
    assert np.array_equal(jax.export.deserialize(portable).call(x), quantized(x))
