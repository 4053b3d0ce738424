"""Transformers as ONNX Runtime's optimiser and quantizers write them, beside ONNX Runtime."""

import functools

import numpy as np
import pytest
from onnx import TensorProto

import dmlax.onnx
from dmlax.onnx import peer
from tools.zoo.networks import Network, quantize

WIDTH, HEADS, LENGTH = 32, 2, 6
TOLERANCE = 1e-5


def linear(net, x, inputs, outputs, bias=True):
    product = net.node("MatMul", x, net.normal(inputs, outputs, deviation=inputs**-0.5))
    return net.node("Add", product, net.normal(outputs, deviation=0.1)) if bias else product


def split(net, x, perm=(0, 2, 1, 3)):
    y = net.node("Reshape", x, net.integers(0, 0, HEADS, WIDTH // HEADS))
    return net.node("Transpose", y, perm=list(perm))


def merge(net, x):
    y = net.node("Transpose", x, perm=[0, 2, 1, 3])
    return net.node("Reshape", y, net.integers(0, 0, WIDTH))


def scalar(net, value):
    return net.constant(np.float32(value))


def embedded(net, *tables):
    rows = [net.node("Gather", net.normal(11, WIDTH, deviation=0.5), name) for name in tables]
    return functools.reduce(lambda x, y: net.node("Add", x, y), rows)


def bert():
    """Encoders with a mask of zeros and ones, as exported from PyTorch."""
    net = Network(1)
    x = net.normalize(
        net.node(
            "Add", embedded(net, "ids", "segments"), net.normal(1, LENGTH, WIDTH, deviation=0.5)
        ),
        WIDTH,
    )
    mask = net.node("Unsqueeze", net.node("Unsqueeze", "mask", net.integers(1)), net.integers(2))
    mask = net.node("Sub", scalar(net, 1), net.node("Cast", mask, to=TensorProto.FLOAT))
    mask = net.node("Mul", mask, scalar(net, -10000))
    for _ in range(2):
        q, k, v = (linear(net, x, WIDTH, WIDTH) for _ in range(3))
        q, k, v = split(net, q), split(net, k, (0, 2, 3, 1)), split(net, v)
        scores = net.node("Div", net.node("MatMul", q, k), scalar(net, (WIDTH // HEADS) ** 0.5))
        scores = net.node("Softmax", net.node("Add", scores, mask), axis=-1)
        y = linear(net, merge(net, net.node("MatMul", scores, v)), WIDTH, WIDTH)
        x = net.normalize(net.node("Add", y, x), WIDTH)
        y = linear(net, net.gelu(linear(net, x, WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH)
        x = net.normalize(net.node("Add", y, x), WIDTH)
    return net, x


def root_mean_square(net, x):
    square = net.node("Pow", x, scalar(net, 2))
    mean = net.node("ReduceMean", square, axes=[-1], keepdims=1)
    root = net.node("Sqrt", net.node("Add", mean, scalar(net, 1e-6)))
    return net.node("Mul", net.constant(np.full(WIDTH, 0.9, np.float32)), net.node("Div", x, root))


def tanh_gelu(net, x):
    cube = net.node("Mul", scalar(net, 0.044715), net.node("Pow", x, scalar(net, 3)))
    inner = net.node("Mul", scalar(net, (2 / np.pi) ** 0.5), net.node("Add", x, cube))
    factor = net.node("Add", scalar(net, 1), net.node("Tanh", inner))
    return net.node("Mul", net.node("Mul", scalar(net, 0.5), x), factor)


def t5():
    """Encoders with root mean squares, a bias of relative positions, and gates."""
    net = Network(2)
    x = embedded(net, "ids")
    bias = net.normal(1, HEADS, LENGTH, LENGTH, deviation=1)
    for _ in range(2):
        y = root_mean_square(net, x)
        q, k, v = (linear(net, y, WIDTH, WIDTH, bias=False) for _ in range(3))
        q, k, v = split(net, q), split(net, k, (0, 2, 3, 1)), split(net, v)
        scores = net.node("Softmax", net.node("Add", net.node("MatMul", q, k), bias), axis=-1)
        y = linear(net, merge(net, net.node("MatMul", scores, v)), WIDTH, WIDTH, bias=False)
        x = net.node("Add", x, y)
        y = root_mean_square(net, x)
        gate = tanh_gelu(net, linear(net, y, WIDTH, 2 * WIDTH, bias=False))
        y = net.node("Mul", gate, linear(net, y, WIDTH, 2 * WIDTH, bias=False))
        x = net.node("Add", x, linear(net, y, 2 * WIDTH, WIDTH, bias=False))
    return net, root_mean_square(net, x)


def rotated(net, x):
    half = WIDTH // HEADS // 2
    angles = np.arange(LENGTH)[:, None] / 10.0 ** (np.arange(half) / half)
    caches = (net.constant(np.tile(f(angles), 2).astype(np.float32)) for f in (np.cos, np.sin))
    first, second = (
        net.node("Slice", x, net.integers(start), net.integers(start + half), net.integers(3))
        for start in (0, half)
    )
    turned = net.node("Concat", net.node("Neg", second), first, axis=-1)
    cosines, sines = caches
    return net.node("Add", net.node("Mul", x, cosines), net.node("Mul", turned, sines))


def gpt():
    """Decoders with rotated queries and keys, and swishes."""
    net = Network(3)
    x = embedded(net, "ids")
    mask = net.constant(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
    for _ in range(2):
        y = net.normalize(x, WIDTH)
        q, k, v = (split(net, linear(net, y, WIDTH, WIDTH)) for _ in range(3))
        q, k = rotated(net, q), net.node("Transpose", rotated(net, k), perm=[0, 1, 3, 2])
        scores = net.node("Mul", net.node("MatMul", q, k), scalar(net, 0.25))
        scores = net.node("Softmax", net.node("Add", scores, mask), axis=-1)
        y = linear(net, merge(net, net.node("MatMul", scores, v)), WIDTH, WIDTH)
        x = net.node("Add", x, y)
        y = linear(net, net.normalize(x, WIDTH), WIDTH, 2 * WIDTH)
        y = net.node("Mul", y, net.node("Sigmoid", net.node("Mul", y, scalar(net, 1.702))))
        y = tanh_gelu(net, linear(net, y, 2 * WIDTH, 2 * WIDTH))
        x = net.node("Add", x, linear(net, y, 2 * WIDTH, WIDTH))
    return net, net.normalize(x, WIDTH)


NETWORKS = {"bert": bert, "t5": t5, "gpt": gpt}
INPUTS = {"bert": ("ids", "segments", "mask"), "t5": ("ids",), "gpt": ("ids",)}


@functools.cache
def network(name):
    net, output = NETWORKS[name]()
    inputs = {each: (TensorProto.INT64, ["n", LENGTH]) for each in INPUTS[name]}
    return net.model(inputs, {output: (TensorProto.FLOAT, ["n", LENGTH, WIDTH])})


def draw(name):
    rng = np.random.default_rng(4)
    found = {each: rng.integers(0, 11, (2, LENGTH)) for each in INPUTS[name]}
    return found | ({"mask": rng.integers(0, 2, (2, LENGTH)) | 1} if "mask" in found else {})


def compare(model, inputs, tolerance=TOLERANCE):
    wanted = peer.run(peer.start(model, optimised=False), inputs)
    found = dmlax.onnx.load(model)(inputs)
    for name, want in wanted.items():
        bound = tolerance * np.abs(want).max()
        np.testing.assert_allclose(np.asarray(found[name]), want, rtol=0, atol=bound)


def operators(model):
    return {f"{node.domain}.{node.op_type}".lstrip(".") for node in model.graph.node}


EXPECTED = {
    "bert": {"com.microsoft.SkipLayerNormalization", "com.microsoft.BiasGelu"},
    "t5": {"SimplifiedLayerNormalization", "com.microsoft.FastGelu"},
    "gpt": {"com.microsoft.QuickGelu", "com.microsoft.FusedMatMul"},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_files_that_onnx_runtime_optimised(name):
    model = peer.fuse(network(name))
    assert operators(model) >= EXPECTED[name]
    compare(model, draw(name))


def fused_bert():
    """A file of the operators that ONNX Runtime's tool for transformers writes."""
    net = Network(5)
    vectors = (net.normal(WIDTH, deviation=0.3) for _ in range(99))
    tables = (net.normal(11, WIDTH, deviation=0.5) for _ in range(3))
    words, places, segments = tables
    operands = ("ids", "segments", words, places, segments, next(vectors), next(vectors), "mask")
    x = net.node("EmbedLayerNormalization", *operands, domain="com.microsoft", outputs=2)
    counts = f"{x}_1"
    for _ in range(2):
        w = (
            net.normal(WIDTH, 3 * WIDTH, deviation=WIDTH**-0.5),
            net.normal(3 * WIDTH, deviation=0.1),
        )
        y = net.node("Attention", x, *w, counts, domain="com.microsoft", num_heads=HEADS)
        for inputs in (WIDTH, 2 * WIDTH):
            y = net.node("MatMul", y, net.normal(inputs, WIDTH, deviation=inputs**-0.5))
            skip = (next(vectors) for _ in range(3))
            x = net.node("SkipLayerNormalization", y, x, *skip, domain="com.microsoft")
            if inputs == WIDTH:
                y = net.node("MatMul", x, net.normal(WIDTH, 2 * WIDTH, deviation=WIDTH**-0.5))
                y = net.node(
                    "BiasGelu", y, net.normal(2 * WIDTH, deviation=0.1), domain="com.microsoft"
                )
    names = ("ids", "segments", "mask")
    inputs = {name: (TensorProto.INT32, [2, LENGTH]) for name in names}
    return net.model(inputs, {x: (TensorProto.FLOAT, [2, LENGTH, WIDTH])})


def test_dynamically_quantized_files():
    model = quantize(fused_bert(), "dynamic", True, per_channel=False)
    inputs = {name: x.astype(np.int32) for name, x in draw("bert").items()}
    wanted = {"com.microsoft.QAttention", "com.microsoft.QEmbedLayerNormalization"}
    assert operators(model) >= wanted
    compare(model, inputs)
    compare(peer.fuse(model), inputs)
