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
    "DequantizeLinear": quantized.to_floats,
    "DynamicQuantizeLinear": quantized.dynamic_quantize,
    "DynamicQuantizeMatMul": quantized.dynamic_product,
    "Flatten": plain.flatten,
    "Gather": plain.gather,
    "Gelu": plain.gelu,
    "Greater": plain.greater,
    "HardSigmoid": plain.hard_sigmoid,
    "LayerNormalization": plain.layer_normalization,
    "MatMul": plain.product,
    "MatMulInteger": quantized.to_int32,
    "MatMulIntegerToFloat": quantized.to_floats,
    "MaxPool": quantized.pool,
    "Mul": plain.multiply,
    "NonZero": plain.nonzero,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.to_bytes,
    "QLinearAveragePool": quantized.pool,
    "QLinearConcat": quantized.concatenate,
    "QLinearConv": quantized.convolution,
    "QLinearGlobalAveragePool": quantized.to_bytes,
    "QLinearLeakyRelu": quantized.leaky_relu,
    "QLinearMatMul": quantized.to_bytes,
    "QLinearMul": quantized.to_bytes,
    "QLinearSigmoid": quantized.sigmoid,
    "QLinearSoftmax": quantized.softmax,
    "QuantizeLinear": quantized.to_bytes,
    "ReduceMean": plain.mean,
    "Relu": plain.relu,
    "Reshape": plain.reshape,
    "Resize": plain.resize,
    "Slice": plain.slice_axes,
    "Softmax": plain.softmax,
    "Transpose": plain.transpose,
}


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Tensor],
    functions: Functions = FUNCTIONS,
    given: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return every tensor that a node writes, in order.

    A node reads the tensors of `given` where it has them, and not those that were computed.
    """
    known = {**graph.constants, **inputs, **(given or {})}
    found: dict[str, Tensor] = {}
    for node in graph.nodes:
        operands = tuple(known[name] if name else None for name in node.inputs)
        found.update(zip(node.outputs, functions[node.op](node, operands), strict=True))
        known = {**found, **known}
    return found
