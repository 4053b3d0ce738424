"""Operators of float16 beside ONNX Runtime, which computes them in float32."""

import numpy as np
import pytest
from onnx import helper

import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files


@pytest.mark.parametrize("seed", range(6))
def test_a_narrow_layer_normalization_is_computed_in_float32(seed):
    """The mean and 1 / deviation are float32, as ONNX says."""
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(2, 30, 3).tolist())
    axis = int(random.integers(-2, 3))
    arrays = {"x": random.standard_normal(shape).astype(np.float16)}
    for name in ("scale", "bias")[: 1 + seed % 2]:
        arrays[name] = random.standard_normal(shape[axis:]).astype(np.float16)
    node = helper.make_node("LayerNormalization", [*arrays], ["y", "mean", "inverse"], axis=axis)
    file = onnx_files.model([node], arrays, node.output, opset=17)
    wanted = peer.run(peer.start(file, optimised=False), arrays)
    found = {name: np.asarray(x) for name, x in dmlax.onnx.load(file)(arrays).items()}
    assert {name: x.dtype for name, x in found.items()} == {
        name: x.dtype for name, x in wanted.items()
    }
    assert np.mean(found["y"] != wanted["y"]) < 0.005  # more than a third differ in float16
    for name in ("mean", "inverse"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=2e-6, atol=2e-7)


ROUNDED_ONCE = {  # operators, their inputs behind the first, and attributes
    "BatchNormalization": (("scale", "bias", "mean", "variance"), {"epsilon": 1e-3}),
    "Gelu": ((), {"approximate": "tanh"}),
    "HardSigmoid": ((), {"alpha": 0.3, "beta": 0.4}),
    "LRN": ((), {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 1.5}),
    "LeakyRelu": ((), {"alpha": 0.1}),
}


@pytest.mark.parametrize("op", ROUNDED_ONCE)
def test_a_narrow_result_is_rounded_once(op):
    random = np.random.default_rng(len(op))
    names, attributes = ROUNDED_ONCE[op]
    arrays = {"x": (random.standard_normal((2, 5, 9, 7)) * 3).astype(np.float16)}
    arrays |= {name: random.uniform(0.5, 2, 5).astype(np.float16) for name in names}
    node = helper.make_node(op, [*arrays], ["y"], **attributes)
    file = onnx_files.model([node], arrays, ["y"], opset=22)
    wanted = peer.run(peer.start(file, optimised=False), arrays)["y"]
    y = np.asarray(dmlax.onnx.load(file)(arrays)["y"])
    assert y.dtype == wanted.dtype == np.float16
    assert np.mean(y != wanted) < (0.1 if op == "Gelu" else 0.005)  # XLA's own tanh
