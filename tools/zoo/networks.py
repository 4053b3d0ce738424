"""Float ONNX files of known networks with random weights, and their quantized forms.

The shapes are those of torchvision's ResNet-50, MobileNetV2 and EfficientNet-B0, with batch norms
folded; the detector has the blocks of YOLOv8. Weights are drawn, so that nothing is downloaded.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 17
Shapes = Mapping[str, tuple[int, Sequence[Any]]]
"""The data type and the shape of each tensor, by name."""


class Network:
    """Collects the nodes and the weights of a float model."""

    def __init__(self, seed: int = 0, channels: int = 3) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.generator = np.random.default_rng(seed)
        self._constants: list[onnx.TensorProto] = []
        self._channels = {"x": channels}

    def node(
        self,
        op: str,
        *inputs: str,
        channels: int | None = None,
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node; returns the name of its first output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        options = {"name": f"node_{name}", "domain": domain, **attributes}
        self.nodes.append(helper.make_node(op, inputs, names, **options))
        default = self._channels.get(inputs[0], 0) if inputs else 0
        self._channels[name] = channels or default
        return name

    def constant(self, array: Any, name: str | None = None) -> str:
        """Add a constant tensor."""
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, *values: int) -> str:
        """Add a vector of integers: sizes, axes or bounds."""
        return self.constant(np.array(values, np.int64))

    def channels(self, x: str) -> int:
        """Return the channels of a tensor."""
        return self._channels[x]

    def normal(self, *shape: int, deviation: float) -> str:
        """Add random numbers."""
        drawn = self.generator.standard_normal(shape) * deviation
        return self.constant(drawn.astype(np.float32))

    def weight(self, *shape: int) -> str:
        """Add the weights of a layer; the first axis is its outputs."""
        return self.normal(*shape, deviation=float(np.sqrt(2 / np.prod(shape[1:]))))

    def conv(self, x: str, count: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution with "same" padding and a bias."""
        weight = self.weight(count, self.channels(x) // groups, kernel, kernel)
        bias = self.normal(count, deviation=0.1)
        pads, strides = [kernel // 2] * 4, [stride] * 2
        options: dict[str, Any] = {"pads": pads, "strides": strides, "group": groups}
        return self.node("Conv", x, weight, bias, channels=count, **options)

    def conv1d(self, x: str, count: int, kernel: int, stride: int = 1) -> str:
        """Add a convolution along time with "same" padding and a bias."""
        weight = self.weight(count, self.channels(x), kernel)
        bias = self.normal(count, deviation=0.1)
        options: dict[str, Any] = {"pads": [kernel // 2] * 2, "strides": [stride]}
        return self.node("Conv", x, weight, bias, channels=count, **options)

    def hard_swish(self, x: str) -> str:
        """Add x times min(max(x + 3, 0), 6) / 6, as exporters spell it."""
        three, zero, six = (self.constant(np.float32(value)) for value in (3, 0, 6))
        clipped = self.node("Clip", self.node("Add", x, three), zero, six)
        return self.node("Div", self.node("Mul", x, clipped), six)

    def relu(self, x: str) -> str:
        """Add a Relu."""
        return self.node("Relu", x)

    def relu6(self, x: str) -> str:
        """Add a Clip from 0 to 6."""
        return self.node("Clip", x, *(self.constant(np.float32(end)) for end in (0, 6)))

    def swish(self, x: str) -> str:
        """Add x times its sigmoid."""
        return self.node("Mul", x, self.node("Sigmoid", x))

    def classifier(self, x: str, classes: int = 1000) -> str:
        """Add the mean of every channel and a fully connected layer."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        weight, bias = self.weight(classes, self.channels(x)), self.weight(classes)
        return self.node("Gemm", flat, weight, bias, transB=1)

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        """Add a fully connected layer of the last axis, as a product and a sum."""
        product = self.product(x, inputs, outputs)
        return self.node("Add", self.normal(outputs, deviation=0.1), product)

    def product(self, x: str, inputs: int, outputs: int) -> str:
        """Add a fully connected layer of the last axis without a bias."""
        return self.node("MatMul", x, self.normal(inputs, outputs, deviation=inputs**-0.5))

    def rows(self, x: str, inputs: int, outputs: int) -> str:
        """Add a fully connected layer of rows: all axes except the last are one."""
        flat = self.node("Reshape", x, self.integers(-1, inputs))
        weight = self.normal(outputs, inputs, deviation=inputs**-0.5)
        return self.node("Gemm", flat, weight, self.normal(outputs, deviation=0.1), transB=1)

    def normalize(self, x: str, width: int) -> str:
        """Add a layer normalization."""
        scale = self.constant(self.generator.uniform(0.5, 1.5, width).astype(np.float32))
        return self.node("LayerNormalization", x, scale, self.normal(width, deviation=0.1), axis=-1)

    def gelu(self, x: str) -> str:
        """Add x times the normal distribution function of x, by an error function."""
        half, one, root = (self.constant(np.float32(value)) for value in (0.5, 1, 2**0.5))
        y = self.node("Add", self.node("Erf", self.node("Div", x, root)), one)
        return self.node("Mul", self.node("Mul", x, y), half)

    def model(self, inputs: Shapes, outputs: Shapes, opset: int = _OPSET) -> onnx.ModelProto:
        """Return the model of these inputs and outputs."""
        ends = _infos(inputs), _infos(outputs)
        graph = helper.make_graph(self.nodes, "network", *ends, self._constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def image_model(self, output: str, size: int, shape: Sequence[Any]) -> onnx.ModelProto:
        """Return the model of square images."""
        inputs = {"x": (TensorProto.FLOAT, ["n", 3, size, size])}
        return self.model(inputs, {output: (TensorProto.FLOAT, shape)})


def _infos(shapes: Shapes) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()]


def resnet50() -> onnx.ModelProto:
    """ResNet-50: 53 convolutions, 16 residual sums."""
    net = Network()
    x = net.relu(net.conv("x", 64, 7, 2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = net.relu(net.conv(x, width))
            y = net.conv(net.relu(net.conv(y, width, 3, stride)), 4 * width)
            skip = net.conv(x, 4 * width, 1, stride) if not block else x
            x = net.relu(net.node("Add", y, skip))
    return net.image_model(net.classifier(x), 224, ["n", 1000])


INVERTED_RESIDUALS = (  # MobileNetV2: expansion, channels, blocks, stride of the first block
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2: inverted residuals, 52 convolutions."""
    net = Network()
    x = net.relu6(net.conv("x", 32, 3, 2))
    for expansion, channels, count, first in INVERTED_RESIDUALS:
        for block in range(count):
            x = _inverted_residual(net, x, channels, expansion, first if not block else 1)
    x = net.relu6(net.conv(x, 1280))
    return net.image_model(net.classifier(x), 224, ["n", 1000])


def _inverted_residual(net: Network, x: str, channels: int, expansion: int, stride: int) -> str:
    wide = expansion * net.channels(x)
    y = net.relu6(net.conv(x, wide)) if expansion > 1 else x
    y = net.conv(net.relu6(net.conv(y, wide, 3, stride, wide)), channels)
    return net.node("Add", x, y) if stride == 1 and channels == net.channels(x) else y


def efficientnet_b0() -> onnx.ModelProto:
    """EfficientNet-B0: inverted residuals with gates, 81 convolutions."""
    net = Network()
    x = net.swish(net.conv("x", 32, 3, 2))
    rows = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3))
    more = ((6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))
    for expansion, kernel, first, channels, count in (*rows, *more):
        for block in range(count):
            options = (expansion, kernel, first if not block else 1)
            x = _gated_residual(net, x, channels, *options)
    x = net.swish(net.conv(x, 1280))
    return net.image_model(net.classifier(x), 224, ["n", 1000])


def _gated_residual(
    net: Network, x: str, channels: int, expansion: int, kernel: int, stride: int
) -> str:
    inner, wide = net.channels(x) // 4, expansion * net.channels(x)
    y = net.swish(net.conv(x, wide)) if expansion > 1 else x
    y = net.swish(net.conv(y, wide, kernel, stride, wide))
    gate = net.swish(net.conv(net.node("GlobalAveragePool", y), inner))
    y = net.node("Mul", net.node("Sigmoid", net.conv(gate, wide)), y)
    y = net.conv(y, channels)
    return net.node("Add", y, x) if stride == 1 and channels == net.channels(x) else y


def detector() -> onnx.ModelProto:
    """A detector with the blocks of YOLOv8: splits, concatenations, pools, upsampling."""
    net = Network()
    x = net.swish(net.conv(net.swish(net.conv("x", 16, 3, 2)), 32, 3, 2))
    x = _split_block(net, x, 32)
    middle = _split_block(net, net.swish(net.conv(x, 64, 3, 2)), 64)
    x = _split_block(net, net.swish(net.conv(middle, 128, 3, 2)), 128)
    pools = [net.swish(net.conv(x, 64))]
    for _ in range(3):
        pools.append(net.node("MaxPool", pools[-1], kernel_shape=[5, 5], pads=[2] * 4))
    x = net.swish(net.conv(net.node("Concat", *pools, axis=1, channels=256), 128))
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    mode: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = net.node("Resize", x, "", scales, mode="nearest", **mode)
    x = net.node("Concat", x, middle, axis=1, channels=192)
    x = net.conv(_split_block(net, x, 64), 84)
    flat = net.node("Reshape", x, net.integers(0, 84, -1))
    return net.image_model(flat, 320, ["n", 84, "boxes"])


def _split_block(net: Network, x: str, channels: int) -> str:
    x = net.swish(net.conv(x, channels))
    half = channels // 2
    parts = []
    for start in (0, half):
        ends = (net.integers(value) for value in (start, start + half, 1))
        parts.append(net.node("Slice", x, *ends, channels=half))
    y = net.swish(net.conv(net.swish(net.conv(parts[1], half, 3)), half, 3))
    parts.append(net.node("Add", parts[1], y))
    joined = net.node("Concat", *parts, axis=1, channels=3 * half)
    return net.swish(net.conv(joined, channels))


def vision_transformer(
    size: int = 224,
    patch: int = 16,
    width: int = 768,
    heads: int = 12,
    depth: int = 12,
    classes: int = 1000,
) -> onnx.ModelProto:
    """ViT: patches and a class token, then blocks; ViT-B/16 by default."""
    net = Network()
    count = (size // patch) ** 2
    weight, bias = net.weight(width, 3, patch, patch), net.normal(width, deviation=0.1)
    x = net.node("Conv", "x", weight, bias, strides=[patch] * 2, kernel_shape=[patch] * 2)
    x = net.node("Reshape", x, net.integers(0, width, count))
    x = net.node("Transpose", x, perm=[0, 2, 1])
    batch = net.node("Gather", net.node("Shape", "x"), net.constant(np.int64(0)), axis=0)
    rows = net.node("Unsqueeze", batch, net.integers(0))
    sizes = net.node("Concat", rows, net.integers(-1, -1), axis=0)
    # Expand knows no -1, so torch.onnx replaces it by 1.
    is_any = net.node("Equal", sizes, net.integers(-1, -1, -1))
    sizes = net.node("Where", is_any, net.integers(1, 1, 1), sizes)
    token = net.node("Expand", net.normal(1, 1, width, deviation=0.5), sizes)
    x = net.node("Concat", token, x, axis=1)
    x = net.node("Add", x, net.normal(1, count + 1, width, deviation=0.5))
    for _ in range(depth):
        x = net.node(
            "Add", x, _self_attention(net, net.normalize(x, width), count + 1, width, heads)
        )
        y = net.rows(net.normalize(x, width), width, 4 * width)
        y = net.rows(net.gelu(y), 4 * width, width)
        x = net.node("Add", x, net.node("Reshape", y, net.integers(-1, count + 1, width)))
    first = net.node("Gather", net.normalize(x, width), net.constant(np.int64(0)), axis=1)
    logits = net.node(
        "Gemm", first, net.weight(classes, width), net.normal(classes, deviation=0.1), transB=1
    )
    return net.image_model(logits, size, ["n", classes])


def _self_attention(net: Network, x: str, length: int, width: int, heads: int) -> str:
    """Add torch.nn.MultiheadAttention: one product for all three, scaled queries and keys."""
    y = net.rows(x, width, 3 * width)
    y = net.node("Reshape", y, net.integers(-1, length, 3, heads, width // heads))
    y = net.node("Transpose", y, perm=[2, 0, 3, 1, 4])
    q, k, v = (net.node("Gather", y, net.constant(np.int64(i)), axis=0) for i in range(3))
    scale = net.constant(np.float32((width // heads) ** -0.25))
    k = net.node("Mul", net.node("Transpose", k, perm=[0, 1, 3, 2]), scale)
    scores = net.node("MatMul", net.node("Mul", q, scale), k)
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), v)
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.integers(-1, width))
    return net.node("Reshape", net.rows(y, width, width), net.integers(-1, length, width))


def bert(
    vocabulary: int = 30522, length: int = 128, width: int = 768, heads: int = 12, depth: int = 12
) -> onnx.ModelProto:
    """BERT's encoder and its pooled output; BERT-base by default."""
    net = Network()
    words, places = (
        net.normal(vocabulary, width, deviation=0.5),
        net.normal(length, width, deviation=0.5),
    )
    x = net.node("Gather", words, "ids", axis=0)
    x = net.normalize(net.node("Add", x, places), width)
    is_word = net.node(
        "Cast", net.node("Unsqueeze", "mask", net.integers(1, 2)), to=TensorProto.BOOL
    )
    # With -10000 the 8 bits of a sum could not tell scores apart.
    ends = (net.constant(np.float32(end)) for end in (0, -16))
    mask = net.node("Where", is_word, *ends)

    def scores(q: str, k: str) -> str:
        root = net.constant(np.float32((width // heads) ** 0.5))
        return net.node("Add", net.node("Div", net.node("MatMul", q, k), root), mask)

    for _ in range(depth):
        y = _joint_attention(net, x, net.linear, scores, length, width, heads)
        x = net.normalize(net.node("Add", net.linear(y, width, width), x), width)
        y = net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)
        x = net.normalize(net.node("Add", y, x), width)
    first = net.node("Gather", x, net.constant(np.int64(0)), axis=1)
    bias = net.normal(width, deviation=0.1)
    pooled = net.node("Tanh", net.node("Gemm", first, net.weight(width, width), bias, transB=1))
    inputs = {name: (TensorProto.INT64, ["n", length]) for name in ("ids", "mask")}
    outputs = {
        x: (TensorProto.FLOAT, ["n", length, width]),
        pooled: (TensorProto.FLOAT, ["n", width]),
    }
    return net.model(inputs, outputs)


def t5_encoder(
    vocabulary: int = 32128, width: int = 512, heads: int = 8, depth: int = 6, inner: int = 2048
) -> onnx.ModelProto:
    """T5-small's encoder: root-mean-square norms, a relative bias, layers without biases."""
    net = Network()
    words = net.normal(vocabulary, width, deviation=1.0)
    x = net.node("Gather", words, "ids", axis=0)
    mask = net.node("Cast", "mask", to=TensorProto.FLOAT)
    mask = net.node("Sub", net.constant(np.float32(1)), mask)
    mask = net.node("Mul", mask, net.constant(np.float32(-1e9)))
    mask = net.node("Unsqueeze", mask, net.integers(1, 2))
    bias = net.node("Add", _relative_bias(net, "ids", heads), mask)

    def scores(q: str, k: str) -> str:
        return net.node("Add", net.node("MatMul", q, k), bias)

    for _ in range(depth):
        y = _root_mean_square_norm(net, x, width)
        y = _joint_attention(net, y, net.product, scores, -1, width, heads)
        x = net.node("Add", x, net.product(y, width, width))
        y = net.product(_root_mean_square_norm(net, x, width), width, inner)
        x = net.node("Add", x, net.product(net.relu(y), inner, width))
    x = _root_mean_square_norm(net, x, width)
    inputs = {name: (TensorProto.INT64, ["n", "length"]) for name in ("ids", "mask")}
    return net.model(inputs, {x: (TensorProto.FLOAT, ["n", "length", width])})


def _root_mean_square_norm(net: Network, x: str, width: int) -> str:
    squares = net.node("Pow", x, net.constant(np.float32(2)))
    mean = net.node("ReduceMean", squares, axes=[-1])
    deviation = net.node("Sqrt", net.node("Add", mean, net.constant(np.float32(1e-6))))
    inverse = net.node("Div", net.constant(np.float32(1)), deviation)
    scale = net.constant(net.generator.uniform(0.5, 1.5, width).astype(np.float32))
    return net.node("Mul", scale, net.node("Mul", x, inverse))


def _relative_bias(net: Network, ids: str, heads: int, buckets: int = 32) -> str:
    """Add a bias for every head and distance, from a table of buckets."""
    length = net.node("Gather", net.node("Shape", ids), net.constant(np.int64(1)), axis=0)
    zero, one = (net.constant(np.int64(value)) for value in (0, 1))
    places = net.node("Range", zero, length, one)
    rows, columns = (net.node("Unsqueeze", places, net.integers(axis)) for axis in (1, 0))
    distance = net.node("Sub", columns, rows)
    limit = net.constant(np.int64(buckets // 2 - 1))
    size = net.node("Min", net.node("Abs", distance), limit)
    is_after = net.node("Cast", net.node("Greater", distance, zero), to=TensorProto.INT64)
    bucket = net.node("Add", size, net.node("Mul", is_after, net.constant(np.int64(buckets // 2))))
    values = net.node("Gather", net.normal(buckets, heads, deviation=1.0), bucket, axis=0)
    return net.node("Unsqueeze", net.node("Transpose", values, perm=[2, 0, 1]), net.integers(0))


def _joint_attention(
    net: Network,
    x: str,
    layer: Callable[[str, int, int], str],
    scores: Callable[[str, str], str],
    length: int,
    width: int,
    heads: int,
) -> str:
    """Add an attention whose queries, keys and values are products of x; -1 is any length."""

    def split(y: str, perm: Sequence[int]) -> str:
        y = net.node("Reshape", y, net.integers(0, length, heads, width // heads))
        return net.node("Transpose", y, perm=perm)

    q, k, v = (layer(x, width, width) for _ in range(3))
    q, k, v = split(q, (0, 2, 1, 3)), split(k, (0, 2, 3, 1)), split(v, (0, 2, 1, 3))
    y = net.node("MatMul", net.node("Softmax", scores(q, k), axis=-1), v)
    y = net.node("Transpose", y, perm=[0, 2, 1, 3])
    return net.node("Reshape", y, net.integers(0, length, width))


def minilm() -> onnx.ModelProto:
    """MiniLM-L6: a BERT of 6 layers of 384."""
    return bert(width=384, depth=6)


def whisper_encoder(width: int = 384, heads: int = 6, depth: int = 4) -> onnx.ModelProto:
    """Whisper-tiny's encoder: two convolutions along time, then layers of 1,500 positions."""
    net = Network(channels=80)
    x = net.gelu(net.conv1d("x", width, 3))
    x = net.node("Transpose", net.gelu(net.conv1d(x, width, 3, 2)), perm=[0, 2, 1])
    x = net.node("Add", x, net.normal(1500, width, deviation=0.5))
    for _ in range(depth):
        y = net.normalize(x, width)
        x = net.node("Add", x, _attention_of(net, y, _keys_and_values(net, y, width, heads), heads))
        x = net.node("Add", x, _perceptron(net, net.normalize(x, width), width))
    x = net.normalize(x, width)
    inputs = {"x": (TensorProto.FLOAT, ["n", 80, 3000])}
    return net.model(inputs, {x: (TensorProto.FLOAT, ["n", 1500, width])})


def _heads(net: Network, x: str, heads: int, size: int) -> str:
    """Split the last axis into heads, and move them before the positions."""
    split = net.node("Reshape", x, net.integers(0, 0, heads, size))
    return net.node("Transpose", split, perm=[0, 2, 1, 3])


def _keys_and_values(net: Network, x: str, width: int, heads: int) -> list[str]:
    return [_heads(net, net.linear(x, width, width), heads, width // heads) for _ in range(2)]


def _attention_of(net: Network, x: str, keys_and_values: Sequence[str], heads: int) -> str:
    width = 64 * heads
    keys, values = keys_and_values
    q = _heads(net, net.linear(x, width, width), heads, 64)
    scores = net.node("MatMul", q, net.node("Transpose", keys, perm=[0, 1, 3, 2]))
    scaled = net.node("Mul", scores, net.constant(np.float32(64**-0.5)))
    y = net.node("MatMul", net.node("Softmax", scaled, axis=-1), values)
    y = net.node("Transpose", y, perm=[0, 2, 1, 3])
    return net.linear(net.node("Reshape", y, net.integers(0, 0, width)), width, width)


def _perceptron(net: Network, x: str, width: int) -> str:
    return net.linear(net.gelu(net.linear(x, width, 4 * width)), 4 * width, width)


def ocr_classifier() -> onnx.ModelProto:
    """A classifier of text orientation: MobileNetV3-small at 0.35 of its width."""
    net = Network()
    x = _mobile_features(net, 0.35, last_stride=2)
    logits = net.classifier(x, 2)
    shape = ["n", 2]
    inputs = {"x": (TensorProto.FLOAT, ["n", 3, 48, 192])}
    return net.model(inputs, {net.node("Softmax", logits, axis=-1): (TensorProto.FLOAT, shape)})


def ocr_recogniser(classes: int = 97) -> onnx.ModelProto:
    """A reader of text lines: MobileNetV3-small at half its width, a class for every column."""
    net = Network()
    x = _mobile_features(net, 0.5, last_stride=1)
    x = net.node("ReduceMean", x, axes=[2], keepdims=0)
    x = net.node("Transpose", x, perm=[0, 2, 1])
    width = net.channels(x)
    probabilities = net.node("Softmax", net.linear(x, width, classes), axis=-1)
    inputs = {"x": (TensorProto.FLOAT, ["n", 3, 48, 320])}
    return net.model(inputs, {probabilities: (TensorProto.FLOAT, ["n", "columns", classes])})


def _mobile_features(net: Network, share: float, last_stride: int) -> str:
    """MobileNetV3-small's blocks."""

    def count(channels: float) -> int:
        return max(8, int(share * channels + 4) // 8 * 8)

    x = net.hard_swish(net.conv("x", count(16), 3, 2))
    rows = (  # kernel, expansion, channels, whether there is a gate, stride
        *((3, 16, 16, True, 2), (3, 72, 24, False, 2), (3, 88, 24, False, 1)),
        *((5, 96, 40, True, 2), (5, 240, 40, True, 1), (5, 240, 40, True, 1)),
        *((5, 120, 48, True, 1), (5, 144, 48, True, 1), (5, 288, 96, True, last_stride)),
        *((5, 576, 96, True, 1), (5, 576, 96, True, 1)),
    )
    for index, (kernel, expansion, channels, is_gated, stride) in enumerate(rows):
        activation = net.relu if index < 3 else net.hard_swish
        y = activation(net.conv(x, count(expansion)))
        wide = net.channels(y)
        y = activation(net.conv(y, wide, kernel, stride, wide))
        if is_gated:
            gate = net.relu(net.conv(net.node("GlobalAveragePool", y), max(8, wide // 4)))
            gate = net.node("HardSigmoid", net.conv(gate, wide), alpha=0.2, beta=0.5)
            y = net.node("Mul", y, gate)
        y = net.conv(y, count(channels))
        x = net.node("Add", x, y) if stride == 1 and count(channels) == net.channels(x) else y
    return net.hard_swish(net.conv(x, count(576)))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_b0": efficientnet_b0,
    "detector": detector,
    "vit_b16": vision_transformer,
    "bert_base": bert,
    "minilm": minilm,
    "t5_encoder": t5_encoder,
    "whisper_encoder": whisper_encoder,
    "ocr_classifier": ocr_classifier,
    "ocr_recogniser": ocr_recogniser,
}
_FORMATS = {  # names of ONNX Runtime: the format of the file and the type of activations
    "qoperator": ("QOperator", "QUInt8"),
    "qdq": ("QDQ", "QUInt8"),
    "qdq-s8": ("QDQ", "QInt8"),
}
FORMS = (*_FORMATS, "dynamic", "float")
_TOKENS = 32  # drawn tokens are less
_SIZES = {"length": 128}  # dynamic sizes other than the batch


def draw_inputs(model: onnx.ModelProto, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw images or tokens for a batch."""
    generator = np.random.default_rng(seed)
    return {value.name: _draw(generator, value, batch) for value in model.graph.input}


def _draw(generator: np.random.Generator, value: onnx.ValueInfoProto, batch: int) -> np.ndarray:
    tensor = value.type.tensor_type
    shape = [size.dim_value or _SIZES.get(size.dim_param, batch) for size in tensor.shape.dim]
    if tensor.elem_type == TensorProto.FLOAT:
        return generator.standard_normal(shape).astype(np.float32)
    if value.name == "mask":  # ones, then zeros
        lengths = generator.integers(shape[1] // 2, shape[1] + 1, (shape[0], 1))
        return (np.arange(shape[1]) < lengths).astype(np.int64)
    return generator.integers(0, _TOKENS, shape)


def quantize(
    model: onnx.ModelProto,
    form: str,
    reduce_range: bool,
    *,
    per_channel: bool = True,
    samples: int = 1,
) -> onnx.ModelProto:
    """Quantize by ONNX Runtime into one of `FORMS`.

    Args:
      model: a model of floats.
      form: "qdq" has uint8 activations, and "qdq-s8" int8.
      reduce_range: whether weights have 7 bits; ONNX Runtime saturates 8 bits without VNNI.
      per_channel: whether every channel of weights has a scale, except in "dynamic".
      samples: the number of random inputs that calibrate the scales.
    """
    if form == "float":
        return model
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._samples = iter([draw_inputs(model, 1, seed) for seed in range(samples)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._samples, None)

    options = {"reduce_range": reduce_range, "weight_type": quantization.QuantType.QInt8}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)
        if form == "dynamic":
            extra = {"DefaultTensorType": TensorProto.FLOAT}  # outputs without a schema in onnx
            quantization.quantize_dynamic(source, target, extra_options=extra, **options)
        else:
            file_format, activation = _FORMATS[form]
            options["quant_format"] = quantization.QuantFormat[file_format]
            options["activation_type"] = quantization.QuantType[activation]
            options["per_channel"] = per_channel
            quantization.quantize_static(source, target, Reader(), **options)
        return onnx.load(target)
