"""Networks written in Flax: nearly all of their multiply-adds run in integers."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import dmlax.onnx
from dmlax.quantization import Rule, quantize
from dmlax.quantization.quantize import _Values as Values
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what Flax uses
def test_each_difference_of_a_transformer_is_a_rounding_that_flips():
    """From ONNX Runtime's values every step gives its bytes, or floats with other last bits."""
    function, params = flax_networks.vit(2, 32, 2, 8, 32, 10)
    x = jnp.float32(np.random.default_rng(0).normal(size=(64, 32, 32, 3)))
    rules = [Rule(per_channel=True, dtype="uint8", bits=7)]
    quantized = quantize(function, params, [x], rules=rules, arithmetic="float32")
    plan, program = quantized.plan, quantized.plan.program
    fused = [step.fused for step in plan.steps if step.fused]
    steps = [step for step in plan.steps if step not in fused]
    floats = {step.result for step in steps if not step.is_integer}
    shown = floats | {*plan.roots} - {step.result for step in fused}

    def values_of(values, numbers):
        """The floats of values, and those that their bytes stand for."""
        found = {f"float{n}": values.real(n) for n in numbers if n in floats}
        bytes_of = {n: values.integers(n) for n in numbers if n in plan.roots}
        return found | {
            f"byte{n}": values.dequantize(y, values.scale(n)) for n, y in bytes_of.items()
        }

    def whole(x):
        values = Values(quantized, [x])
        return values_of(values, shown) | {"scores": values.outputs()}

    @jax.jit
    def alone(theirs):
        """Each step of ONNX Runtime's values."""
        found = {}
        for step in steps:
            reads = {*step.reads, *(step.fused.reads if step.fused else ())} - {
                *quantized.constants
            }
            names = [
                f"float{n}" if n in floats and not step.is_integer else f"byte{n}" for n in reads
            ]
            leaves = [theirs.get(name, x) for name in names]
            part = replace(plan, steps=[step], program=replace(program, inputs=[*reads]))
            values = Values(replace(quantized, plan=part), leaves)
            found |= values_of(values, [step.result])
        return found

    def run(function):
        file = dmlax.onnx.from_jax(function, x, input_names=["x"])
        session = onnxruntime.InferenceSession(file.SerializeToString())
        return session.run(None, {"x": np.asarray(x)})

    theirs = dict(zip(sorted(jax.eval_shape(whole, x)), run(whole), strict=True))
    assert np.array_equal(theirs["scores"], run(quantized)[0])
    for name, ours in alone({name: jnp.asarray(y) for name, y in theirs.items()}).items():
        if name.startswith("byte"):
            assert np.array_equal(ours, theirs[name]), name
        else:
            np.testing.assert_allclose(ours, theirs[name], 1e-5, 1e-6, err_msg=name)
