"""QDQ files whose tensors are int8 here and uint8 there, as ONNX Runtime fuses them."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import dmlax.onnx
from tools.zoo.networks import Network

BYTES = (np.uint8, np.int8)
SHAPE = ["n", 4, 6, 6]
UNARY = {"Sigmoid": {}, "Softmax": {}, "LeakyRelu": {"alpha": 0.1}}
BINARY = ("Add", "Mul", "Concat")


def model(op, x_dtype, y_dtype, other_dtype):
    """An operator between dequantized operands and a quantization."""
    net = Network(3)

    def parameters(scale, dtype, at):
        return net.constant(np.float32(scale)), net.constant(np.asarray(at, dtype))

    def quantized(x, scale, dtype):
        given = parameters(scale, dtype, 128 if dtype == np.uint8 else 0)
        return net.node("DequantizeLinear", net.node("QuantizeLinear", x, *given), *given)

    x = quantized("x", 0.03, x_dtype)
    if op in UNARY:
        y = net.node(op, x, **UNARY[op])
    elif op == "Concat":
        y = net.node(op, x, quantized("x", 0.05, other_dtype), axis=1)
    else:
        other = np.random.default_rng(1).integers(0, 256, (1, 4, 6, 6), np.uint8)
        other = net.constant(other.view(other_dtype))
        y = net.node(op, x, net.node("DequantizeLinear", other, *parameters(0.01, other_dtype, 7)))
    sizes = [f"size {i}" for i in range(4)]
    return net.model(
        {"x": (TensorProto.FLOAT, SHAPE)},
        {quantized(y, 1 / 128, y_dtype): (TensorProto.FLOAT, sizes)},
    )


def run_fused(file, x, path):
    """ONNX Runtime's output at its extended level, and the operators that it runs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (output,) = session.run(None, {"x": x})
    return output, operators(onnx.load(path).graph.node, "op_type")


def operators(nodes, attribute):
    found = [getattr(node, attribute) for node in nodes]
    return [op for op in found if op not in ("QuantizeLinear", "DequantizeLinear")]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", [*UNARY, *BINARY])
def test_dtypes_that_differ_are_fused_as_onnxruntime_fuses_them(op, tmp_path):
    x = np.random.default_rng(0).normal(0, 2, (2, 4, 6, 6)).astype(np.float32)
    others = BYTES if op in BINARY else BYTES[:1]
    for dtypes in itertools.product(BYTES, BYTES, others):
        file = model(op, *dtypes)
        theirs, fused = run_fused(file, x, tmp_path / "fused.onnx")
        loaded = dmlax.onnx.load(file)
        assert operators(loaded._graph.nodes, "op") == fused, dtypes
        np.testing.assert_array_equal(*loaded({"x": x}).values(), theirs)


@pytest.mark.parametrize("op", UNARY)
def test_an_exact_output_of_another_dtype_has_the_same_elements(op):
    x = np.random.default_rng(0).normal(0, 2, (2, 4, 6, 6)).astype(np.float32)
    found = [
        np.asarray(
            *dmlax.onnx.load(model(op, x_dtype, y_dtype, x_dtype), arithmetic="exact")(x).values()
        )
        for x_dtype, y_dtype in itertools.product(BYTES, BYTES)
    ]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
