"""Layer normalizations between bytes: which nodes are fused, and what they round."""

from collections import Counter

import jax
import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from dmlax.onnx import peer
from support.calls import layer_normalization as layer_normalization_calls
from tools.zoo.networks import Network

SHAPE = ["n", 4, 8]


def model(*, axis=-1, order="Reshape", gives_floats=False):
    """Bytes to floats, normalized, in another order, to bytes."""
    net = Network()
    point, scale = net.constant(np.uint8(9)), net.constant(np.float32(0.05))
    real = net.node("DequantizeLinear", "x", scale, point)
    factors = [net.normal(*SHAPE[axis % 3 :], deviation=1.0) for _ in range(2)]
    normal = net.node("LayerNormalization", real, *factors, axis=axis, epsilon=1e-3)
    sizes = [net.integers(-1, 8)] if order == "Reshape" else []
    y = net.node(order, normal, *sizes) if order else normal
    y = net.node("QuantizeLinear", y, scale, point)
    floats = {normal: (TensorProto.FLOAT, SHAPE)} if gives_floats else {}
    ranks = {"Reshape": 2, "Transpose": 3, "": 3}
    shape = [f"size_{i}" for i in range(ranks[order])]
    return net.model({"x": (TensorProto.UINT8, SHAPE)}, {y: (TensorProto.UINT8, shape)} | floats)


def operators(file):
    return [node.op for node in dmlax.onnx.load(file)._graph.nodes]


@pytest.mark.parametrize("order", ["Reshape", "Transpose", ""])
def test_a_layer_normalization_of_bytes_is_one_node(order):
    file = model(order=order)
    assert operators(file) == ["QuantizedLayerNormalization", *([order] if order else [])]
    x = np.random.default_rng(0).integers(0, 256, (3, 4, 8), np.uint8)
    loaded = dmlax.onnx.load(file)
    ((name, found),) = jax.jit(loaded.apply)(loaded.params, {"x": x}).items()
    expected = peer.run_every_tensor(file, {"x": x})[name]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    apart = abs(np.asarray(found, int) - expected)  # ties may differ by one
    assert apart.max() <= 1
    assert apart.mean() < 0.02


@pytest.mark.parametrize("options", [{"axis": 1}, {"gives_floats": True}])
def test_other_axes_and_floats_that_are_asked_for_stay_apart(options):
    found = operators(model(**options))
    assert "LayerNormalization" in found
    assert "QuantizedLayerNormalization" not in found


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_elements_are_the_nearest_integers_but_beside_ties(arithmetic):
    elements = Counter()
    for seed in range(8):
        wrong = layer_normalization_calls.wrong_elements(seed, arithmetic, elements)
        assert list(wrong) == []
    assert elements["far from ties"] > 0.98 * elements["all"] > 10_000
