"""Small models for the tests: built in float, and quantized by ONNX Runtime."""

import functools
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto

from tools.zoo.networks import Network, bert, draw_inputs, quantize, vision_transformer


def classifier() -> onnx.ModelProto:
    """A residual block, a depthwise one with a gate, and a classifier."""
    net = Network()
    x = net.relu(net.conv("x", 8, 3, 2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.conv(net.relu(net.conv(x, 8, 3)), 8)
    x = net.relu(net.node("Add", y, x))
    y = net.swish(net.conv(x, 8, 3, groups=8))
    x = net.node("Concat", y, x, axis=1, channels=16)
    return net.image_model(net.classifier(x, 5), 16, ["n", 5])


def attention() -> onnx.ModelProto:
    """One head of attention, whose sizes are computed from shapes."""
    net = Network(1)
    q, k, v = (net.node("MatMul", "x", net.weight(8, 8)) for _ in range(3))
    scores = net.node("MatMul", q, net.node("Transpose", k, perm=[0, 2, 1]))
    scaled = net.node("Div", scores, net.constant(np.float32(8**0.5)))
    x = net.node("MatMul", net.node("Softmax", scaled, axis=-1), v)
    batch = net.node("Gather", net.node("Shape", "x"), net.constant(np.int64(0)), axis=0)
    one = net.node("Unsqueeze", batch, net.integers(0))
    y = net.node("Reshape", x, net.node("Concat", one, net.integers(-1), axis=0))
    shapes = {"x": (TensorProto.FLOAT, ["n", 6, 8])}
    return net.model(shapes, {y: (TensorProto.FLOAT, ["n", 48])})


def detector() -> onnx.ModelProto:
    """A head whose boxes are those with a score above zero."""
    net = Network(2)
    flat = net.node("Reshape", net.conv("x", 5), net.integers(5, -1))
    rows = net.node("Transpose", flat, perm=[1, 0])
    scores = net.node("Slice", rows, *map(net.integers, (4, 5, 1)))
    chosen = net.node("NonZero", net.node("Greater", scores, net.constant(np.float32(0))))
    index = net.node("Gather", chosen, net.constant(np.int64(0)), axis=0)
    y = net.node("Gather", rows, index, axis=0)
    shapes = {"x": (TensorProto.FLOAT, [1, 3, 6, 6])}
    return net.model(shapes, {y: (TensorProto.FLOAT, ["rows", 5])})


FLOAT_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "classifier": classifier,
    "attention": attention,
    "detector": detector,
    "vit": lambda: vision_transformer(size=16, patch=4, width=32, heads=2, depth=2, classes=10),
    "bert": lambda: bert(vocabulary=40, length=12, width=32, heads=2, depth=2),
}


def inputs_of(model: onnx.ModelProto, batch: int = 2, seed: int = 3) -> dict[str, np.ndarray]:
    return draw_inputs(model, batch, seed)


@functools.cache
def quantized(name: str, format: str) -> onnx.ModelProto:
    """A float model quantized; weights have 7 bits, so that ONNX Runtime saturates nowhere."""
    per_channel = name != "attention"
    return quantize(FLOAT_MODELS[name](), format, True, per_channel=per_channel, samples=3)
