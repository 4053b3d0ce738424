"""Float ONNX files of known networks with random weights, and their quantized forms.

The shapes are those of torchvision's ResNet-50, MobileNetV2 and EfficientNet-B0, with batch norms
folded; the detector has the blocks of YOLOv8. Weights are drawn, so that nothing is downloaded.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 17


class Network:
    """Collects the nodes and the weights of a float model."""

    def __init__(self, seed: int = 0) -> None:
        self._generator = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._channels = {"x": 3}

    def node(self, op: str, *inputs: str, channels: int | None = None, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name=f"node_{name}", **attributes))
        self._channels[name] = channels or self._channels[inputs[0]]
        return name

    def constant(self, array: Any) -> str:
        """Add a tensor of the file."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def channels(self, x: str) -> int:
        """Return the channels of a tensor."""
        return self._channels[x]

    def _weight(self, *shape: int) -> str:
        fan = np.prod(shape[1:])
        drawn = self._generator.standard_normal(shape) * np.sqrt(2 / fan)
        return self.constant(drawn.astype(np.float32))

    def conv(self, x: str, count: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """Add a convolution with "same" padding and a bias."""
        weight = self._weight(count, self.channels(x) // groups, kernel, kernel)
        bias = self.constant((self._generator.standard_normal(count) * 0.1).astype(np.float32))
        options = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
        return self.node("Conv", x, weight, bias, channels=count, **options)

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
        """Add the mean of each channel and a fully connected layer."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        weight, bias = self._weight(classes, self.channels(x)), self._weight(classes)
        return self.node("Gemm", flat, weight, bias, transB=1)

    def model(self, output: str, size: int, shape: Sequence[Any]) -> onnx.ModelProto:
        """Return the model of images of a size."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, size, size])
        y = helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, "network", [x], [y], initializer=self._constants)
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


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
    return net.model(net.classifier(x), 224, ["n", 1000])


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2: inverted residuals, 52 convolutions."""
    net = Network()
    x = net.relu6(net.conv("x", 32, 3, 2))
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    for expansion, channels, count, first in (*rows, (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            x = _inverted_residual(net, x, channels, expansion, first if not block else 1)
    x = net.relu6(net.conv(x, 1280))
    return net.model(net.classifier(x), 224, ["n", 1000])


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
    return net.model(net.classifier(x), 224, ["n", 1000])


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
    flat = net.node("Reshape", x, net.constant(np.array([0, 84, -1])))
    return net.model(flat, 320, ["n", 84, "boxes"])


def _split_block(net: Network, x: str, channels: int) -> str:
    x = net.swish(net.conv(x, channels))
    half = channels // 2
    parts = []
    for start in (0, half):
        ends = (net.constant(np.array([each])) for each in (start, start + half, 1))
        parts.append(net.node("Slice", x, *ends, channels=half))
    y = net.swish(net.conv(net.swish(net.conv(parts[1], half, 3)), half, 3))
    parts.append(net.node("Add", parts[1], y))
    joined = net.node("Concat", *parts, axis=1, channels=3 * half)
    return net.swish(net.conv(joined, channels))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_b0": efficientnet_b0,
    "detector": detector,
}


def images(model: onnx.ModelProto, batch: int, seed: int = 0) -> np.ndarray:
    """Draw a batch of images."""
    size = model.graph.input[0].type.tensor_type.shape.dim[2].dim_value
    drawn = np.random.default_rng(seed).standard_normal((batch, 3, size, size))
    return drawn.astype(np.float32)


def quantize(model: onnx.ModelProto, form: str, reduce_range: bool) -> onnx.ModelProto:
    """Quantize by ONNX Runtime: "qoperator", "qdq" or "dynamic", a scale for each channel.

    With `reduce_range` weights have 7 bits, so that ONNX Runtime saturates nowhere without VNNI.
    """
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._samples = iter([{"x": images(model, 1)}])

        def get_next(self) -> Any:
            return next(self._samples, None)

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)
        options = {"reduce_range": reduce_range, "weight_type": quantization.QuantType.QInt8}
        if form == "dynamic":
            quantization.quantize_dynamic(source, target, **options)
        else:
            form = {"qoperator": "QOperator", "qdq": "QDQ"}[form]
            quantization.quantize_static(
                source,
                target,
                Reader(),
                quant_format=quantization.QuantFormat[form],
                per_channel=True,
                activation_type=quantization.QuantType.QUInt8,
                **options,
            )
        return onnx.load(target)
