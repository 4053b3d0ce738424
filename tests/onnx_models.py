"""Small models for the tests: built in float, and quantized by ONNX Runtime."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

OPSET = 17


class Builder:
    """Collects the nodes and the constants of a float model."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(
            helper.make_node(op, inputs, names, name=f"node_{name}", domain=domain, **attributes)
        )
        return name

    def constant(self, array, name: str | None = None) -> str:
        name = name or f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant((self.generator.standard_normal(shape) * 0.3).astype(np.float32))

    def conv(self, x: str, channels: int, count: int, kernel: int = 1, **attributes) -> str:
        groups = attributes.get("group", 1)
        weight = self.weight(count, channels // groups, kernel, kernel)
        return self.node("Conv", x, weight, self.weight(count), **attributes)

    def model(self, inputs: dict, outputs: dict, opset: int = OPSET) -> onnx.ModelProto:
        def infos(values):
            return [
                helper.make_tensor_value_info(name, dtype, shape)
                for name, (dtype, shape) in values.items()
            ]

        graph = helper.make_graph(
            self.nodes, "g", infos(inputs), infos(outputs), initializer=self.constants
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def classifier() -> onnx.ModelProto:
    """A residual block, a depthwise one with a gate, and a classifier."""
    b = Builder()
    x = b.node("Relu", b.conv("x", 3, 8, 3, pads=[1, 1, 1, 1], strides=[2, 2]))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.conv(b.node("Relu", b.conv(x, 8, 8, 3, pads=[1, 1, 1, 1])), 8, 8)
    x = b.node("Relu", b.node("Add", y, x))
    y = b.conv(x, 8, 8, 3, pads=[1, 1, 1, 1], group=8)
    y = b.node("Mul", y, b.node("Sigmoid", y))
    x = b.node("Flatten", b.node("GlobalAveragePool", b.node("Concat", y, x, axis=1)))
    y = b.node("Gemm", x, b.weight(5, 16), b.weight(5), transB=1)
    shapes = {"x": (TensorProto.FLOAT, ["n", 3, 16, 16])}
    return b.model(shapes, {y: (TensorProto.FLOAT, ["n", 5])})


def attention() -> onnx.ModelProto:
    """One head of attention, whose sizes are computed from shapes."""
    b = Builder(1)
    q, k, v = (b.node("MatMul", "x", b.weight(8, 8)) for _ in range(3))
    scores = b.node("MatMul", q, b.node("Transpose", k, perm=[0, 2, 1]))
    scaled = b.node("Div", scores, b.constant(np.float32(8**0.5)))
    x = b.node("MatMul", b.node("Softmax", scaled, axis=-1), v)
    batch = b.node("Gather", b.node("Shape", "x"), b.constant(np.int64(0)), axis=0)
    one = b.node("Unsqueeze", batch, b.constant(np.int64([0])))
    sizes = b.node("Concat", one, b.constant(np.int64([-1])), axis=0)
    y = b.node("Reshape", x, sizes)
    shapes = {"x": (TensorProto.FLOAT, ["n", 6, 8])}
    return b.model(shapes, {y: (TensorProto.FLOAT, ["n", 48])})


def detector() -> onnx.ModelProto:
    """A head whose boxes are those with a score above zero."""
    b = Builder(2)
    x = b.conv("x", 3, 5)
    flat = b.node("Reshape", x, b.constant(np.int64([5, -1])))
    rows = b.node("Transpose", flat, perm=[1, 0])
    scores = b.node("Slice", rows, *(b.constant(np.int64([i])) for i in (4, 5, 1)))
    chosen = b.node("NonZero", b.node("Greater", scores, b.constant(np.float32(0))))
    index = b.node("Gather", chosen, b.constant(np.int64(0)), axis=0)
    y = b.node("Gather", rows, index, axis=0)
    shapes = {"x": (TensorProto.FLOAT, [1, 3, 6, 6])}
    return b.model(shapes, {y: (TensorProto.FLOAT, ["rows", 5])})


FLOAT_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "classifier": classifier,
    "attention": attention,
    "detector": detector,
}
FORMATS = ("qoperator", "qdq", "qdq-s8", "dynamic")


def inputs_of(model: onnx.ModelProto, batch: int = 2, seed: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    shapes = {
        value.name: [size.dim_value or batch for size in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    return {
        name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


class _Reader(CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto) -> None:
        self.samples = iter([inputs_of(model, seed=seed) for seed in range(3)])

    def get_next(self):
        return next(self.samples, None)


@functools.cache
def quantized(name: str, format: str) -> onnx.ModelProto:
    """A float model quantized; weights have 7 bits, so that ONNX Runtime saturates nowhere."""
    model = FLOAT_MODELS[name]()
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, source)
        if format == "dynamic":
            quantize_dynamic(source, target, reduce_range=True, weight_type=QuantType.QInt8)
        else:
            activation = QuantType.QInt8 if format == "qdq-s8" else QuantType.QUInt8
            quantize_static(
                source,
                target,
                _Reader(model),
                quant_format=QuantFormat.QOperator if format == "qoperator" else QuantFormat.QDQ,
                per_channel=name == "classifier",
                reduce_range=True,
                activation_type=activation,
                weight_type=QuantType.QInt8,
            )
        return onnx.load(target)


def run_onnxruntime(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], *, optimised: bool, every: bool = False
) -> dict[str, np.ndarray]:
    """Runs ONNX Runtime; with `every`, each tensor of the graph."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if every:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        model, have = copy, {value.name for value in copy.graph.output}
        names = [name for node in copy.graph.node for name in node.output if name not in have]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))
