"""The right value of every tensor of a graph: each operator rounds once."""

from collections.abc import Callable, Mapping

from ..format.tensors import Tensor
from . import plain, quantized
from .graph import Graph, Node
from .quantized import Answer, Operands

Functions = Mapping[str, Callable[[Node, Operands], Answer]]

FUNCTIONS: Functions = {
    "Add": plain.add,
    "Cast": plain.cast,
    "ConvInteger": quantized.convolution,
    "DequantizeLinear": quantized.dequantize_linear,
    "DynamicQuantizeLinear": quantized.dynamic_quantize,
    "DynamicQuantizeMatMul": quantized.dynamic_product,
    "Flatten": plain.flatten,
    "Gather": plain.gather,
    "Greater": plain.greater,
    "HardSigmoid": plain.hard_sigmoid,
    "MatMulInteger": quantized.integer_product,
    "MatMulIntegerToFloat": quantized.float_product,
    "MaxPool": quantized.max_pool,
    "Mul": plain.multiply,
    "NonZero": plain.nonzero,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.binary,
    "QLinearAveragePool": quantized.average_pool,
    "QLinearConcat": quantized.concatenate,
    "QLinearConv": quantized.convolution,
    "QLinearGlobalAveragePool": quantized.average_pool,
    "QLinearLeakyRelu": quantized.leaky_relu,
    "QLinearMatMul": quantized.matrix_product,
    "QLinearMul": quantized.binary,
    "QLinearSigmoid": quantized.sigmoid,
    "QLinearSoftmax": quantized.softmax,
    "QuantizeLinear": quantized.quantize_linear,
    "Relu": plain.relu,
    "Reshape": plain.reshape,
    "Resize": plain.resize,
    "Slice": plain.slice_axes,
    "Softmax": plain.softmax,
    "Transpose": plain.transpose,
}


def evaluate(
    graph: Graph, inputs: Mapping[str, Tensor], functions: Functions = FUNCTIONS
) -> dict[str, Tensor]:
    """Return every tensor that a node writes, in order."""
    known = {**graph.constants, **inputs}
    for node in graph.nodes:
        operands = tuple(known[name] if name else None for name in node.inputs)
        known.update(zip(node.outputs, functions[node.op](node, operands), strict=True))
    return {name: known[name] for name in graph.written()}


def evaluate_apart(
    graph: Graph, known: Mapping[str, Tensor], functions: Functions = FUNCTIONS
) -> dict[str, Tensor]:
    """Return what each node makes of the values that are given of its inputs."""
    values = {**graph.constants, **known}
    found: dict[str, Tensor] = {}
    for node in graph.nodes:
        operands = tuple(values[name] if name else None for name in node.inputs)
        found.update(zip(node.outputs, functions[node.op](node, operands), strict=True))
    return found
