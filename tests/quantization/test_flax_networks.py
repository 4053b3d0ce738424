"""Networks written in Flax: nearly all of their multiply-adds run in integers."""

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import dmlax.onnx
from dmlax.quantization import Rule, quantize
from support import flax_networks

SMALL = {
    "resnet": lambda: flax_networks.resnet((1,), 8, 10),
    "mobilenet": lambda: flax_networks.mobilenet(((1, 16, 1, 1), (6, 16, 1, 1)), 32, 10),
    "vit": lambda: flax_networks.vit(1, 32, 2, 8, 32, 10),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what Flax uses
@pytest.mark.parametrize("name", SMALL)
def test_a_network_of_flax_runs_in_integers(name):
    function, params = SMALL[name]()
    x = jnp.float32(np.random.default_rng(0).normal(size=(2, 32, 32, 3)))
    quantized = quantize(function, params, [x])
    assert quantized.report.integer_share == 1
    expected, actual = function(params, x), jax.jit(quantized)(x)
    assert 10 * jnp.log10((expected**2).sum() / ((expected - actual) ** 2).sum()) > 25


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_unet_runs_in_integers_with_the_bits_of_onnx_runtime():
    function, params = flax_networks.unet(8)
    x = jnp.float32(np.random.default_rng(0).normal(size=(2, 16, 16, 3)))
    options = {"rules": [Rule(per_channel=True, dtype="uint8", bits=7)], "arithmetic": "float32"}
    quantized = quantize(function, params, [x], **options)
    assert {x.runs for x in quantized.report.lines} == {"uint8"}
    assert "unknown" not in str(quantized.report)
    expected, actual = function(params, x), np.asarray(jax.jit(quantized)(x))
    assert 10 * jnp.log10((expected**2).sum() / ((expected - actual) ** 2).sum()) > 15
    file = dmlax.onnx.from_jax(quantized, x, input_names=["x"])
    session = onnxruntime.InferenceSession(file.SerializeToString())
    assert np.array_equal(session.run(None, {"x": np.asarray(x)})[0], actual)
