"""Fuses operators between DequantizeLinear and QuantizeLinear into quantized ones.

The nodes are those that ONNX Runtime's extended optimisations make of such a file.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dmlax.onnx.graph import MICROSOFT, Graph, Node

_MOVES = {
    *("DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "Identity", "MaxPool"),
    *("Reshape", "Resize", "Slice", "SpaceToDepth", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
}


class Quantized(NamedTuple):
    """A tensor with its scale and zero point, by their names."""

    tensor: str
    scale: str
    zero_point: str
    axis: int

    @property
    def parameters(self) -> tuple[str, str, str]:
        """The operands of a quantized operator."""
        return self.tensor, self.scale, self.zero_point


class Group(NamedTuple):
    """A node between dequantized operands, None where one is absent, and quantized outputs."""

    node: Node
    inputs: tuple[Quantized | None, ...]
    output: Quantized

    @property
    def ends(self) -> tuple[str, str]:
        """The scale and the zero point of the output."""
        return self.output.scale, self.output.zero_point


def fuse_qdq(graph: Graph) -> Graph:
    """Replaces each QuantizeLinear that ends a group by the quantized operator of the group."""
    finder = _Finder(graph)
    nodes = []
    for node in graph.nodes:
        group = finder.group(node)
        fused = None if group is None else _fuse(group, finder)
        nodes.append(fused or finder.fuse_float_product(node) or node)
    constants = {**graph.constants, **finder.zero_points}
    return graph.replace(nodes=tuple(nodes), constants=constants)


class _Finder:
    """Finds groups, and makes the zero points that a file leaves out."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers, self.consumers = graph.producers(), graph.consumers()
        self.zero_points: dict[str, np.ndarray] = {}

    def group(self, quantize: Node) -> Group | None:
        """The group that a QuantizeLinear ends, if all of its operands are dequantized."""
        if quantize.op != "QuantizeLinear":
            return None
        node = self.producers.get(quantize.inputs[0])
        if node is None or len(self.consumers[quantize.inputs[0]]) != 1 or len(node.outputs) != 1:
            return None
        output = self._quantized(quantize.outputs[0], quantize)
        inputs = tuple(self.dequantized(name) for name in node.inputs)
        return Group(node, inputs, output)

    def dequantized(self, name: str) -> Quantized | None:
        """The quantized tensor of which a float one was made."""
        node = self.producers.get(name)
        if node is None or node.op != "DequantizeLinear":
            return None
        return self._quantized(node.inputs[0], node)

    def _quantized(self, tensor: str, node: Node) -> Quantized:
        zero_point = node.inputs[2] if len(node.inputs) > 2 else ""
        axis = int(node.attributes.get("axis", 1))
        zero_point = zero_point or self._zero(tensor, node)
        return Quantized(tensor, node.inputs[1], zero_point, axis)

    def _zero(self, tensor: str, node: Node) -> str:
        """The name of a zero point of 0, of the tensor's dtype."""
        constant = self.graph.constants.get(tensor)
        quantize = self.producers.get(tensor)
        if constant is not None:
            dtype = constant.dtype
        elif node.op == "DequantizeLinear" and quantize is not None and len(quantize.inputs) > 2:
            known = self.graph.constants.get(quantize.inputs[2])
            dtype = np.dtype(np.uint8) if known is None else known.dtype
        else:
            dtype = np.dtype({3: np.int8}.get(node.attributes.get("output_dtype", 2), np.uint8))
        name = f"zero@{dtype.name}"
        self.zero_points[name] = np.zeros((), dtype)
        return name

    def fuse_float_product(self, node: Node) -> Node | None:
        """The fused node of a MatMul of dequantized operands whose output stays float."""
        if node.op != "MatMul" or node.domain:
            return None
        readers = self.consumers.get(node.outputs[0], ())
        if any(reader.op == "QuantizeLinear" for reader in readers):
            return None
        a, b = (self.dequantized(name) for name in node.inputs)
        if a is None or b is None or not self.is_one_value(a) or not self.is_by_column(b):
            return None
        inputs = (a.tensor, b.tensor, a.scale, b.scale, a.zero_point, b.zero_point)
        return Node(node.name, "MatMulIntegerToFloat", MICROSOFT, 1, inputs, node.outputs[:1], {})

    def is_one_value(self, quantized: Quantized) -> bool:
        """True where the parameters are known to be one value."""
        scale = self.graph.constants.get(quantized.scale)
        return scale is not None and scale.size == 1

    def is_by_column(self, quantized: Quantized) -> bool:
        """True where the parameters are one value, or lie along a matrix's last axis."""
        return self.is_one_value(quantized) or quantized.axis in (1, -1)

    def is_along(self, quantized: Quantized, axis: int) -> bool:
        """True where the parameters are one value, or lie along an axis."""
        return self.is_one_value(quantized) or quantized.axis == axis

    def is_int8_constant(self, quantized: Quantized) -> bool:
        """True for what ONNX Runtime leaves int8 beside tensors that it makes uint8."""
        constant = self.graph.constants.get(quantized.tensor)
        return constant is not None and constant.dtype == np.int8

    def is_int32(self, bias: Quantized | None) -> bool:
        """False for a bias of floats, or of 8 bits, with which ONNX Runtime fuses nothing."""
        constant = self.graph.constants.get(bias.tensor) if bias else None
        return bias is not None and (constant is None or constant.dtype == np.int32)

    def has_equal_parameters(self, a: Quantized, b: Quantized) -> bool:
        """True where two tensors have the same scale and zero point."""
        pairs = ((a.scale, b.scale), (a.zero_point, b.zero_point))
        return all(one == other or self._equal(one, other) for one, other in pairs)

    def _equal(self, one: str, other: str) -> bool:
        constants = {**self.graph.constants, **self.zero_points}
        a, b = constants.get(one), constants.get(other)
        if a is None or b is None:
            return False
        return a.dtype == b.dtype and np.array_equal(a.ravel(), b.ravel())


def _fuse(group: Group, finder: _Finder) -> Node | None:
    node = group.node
    if node.domain not in ("", MICROSOFT):
        return None
    if node.op in _MOVES:
        return _move(group, finder)
    build = _BUILDERS.get(node.op)
    return build(group, finder) if build else None


def _move(group: Group, finder: _Finder) -> Node | None:
    """The move itself, of bytes."""
    first, *rest = group.inputs
    if first is None or any(rest) or not finder.has_equal_parameters(first, group.output):
        return None
    inputs = (first.tensor, *group.node.inputs[1:])
    return group.node.replace(inputs=inputs, outputs=(group.output.tensor,))


def _quantized(op: str, group: Group, inputs: Iterable[str], attributes: Mapping[str, Any]) -> Node:
    domain, version = ("", 10) if op in ("QLinearConv", "QLinearMatMul") else (MICROSOFT, 1)
    outputs = (group.output.tensor,)
    return Node(group.node.name, op, domain, version, tuple(inputs), outputs, attributes)


def _convolution(group: Group, finder: _Finder) -> Node | None:
    x, w, *rest = group.inputs
    if x is None or w is None or not finder.is_one_value(x) or not finder.is_along(w, 0):
        return None
    if rest and not finder.is_int32(rest[0]):
        return None
    bias = (rest[0].tensor,) if rest and rest[0] else ()
    inputs = (*x.parameters, *w.parameters, *group.ends, *bias)
    return _quantized("QLinearConv", group, inputs, group.node.attributes)


def _gemm(group: Group, finder: _Finder) -> Node | None:
    a, b, *rest = group.inputs
    attributes = dict(group.node.attributes)
    beta = attributes.pop("beta", 1.0)
    if a is None or b is None or not finder.is_one_value(a) or (rest and beta != 1.0):
        return None
    if rest and not finder.is_int32(rest[0]):
        return None
    if not finder.is_along(b, 0 if attributes.get("transB") else 1):
        return None
    bias = rest[0].tensor if rest and rest[0] else ""
    inputs = (*a.parameters, *b.parameters, bias, *group.ends)
    return _quantized("QGemm", group, inputs, attributes)


def _product(group: Group, finder: _Finder) -> Node | None:
    a, b = group.inputs
    if a is None or b is None or not finder.is_one_value(a) or not finder.is_by_column(b):
        return None
    return _quantized("QLinearMatMul", group, (*a.parameters, *b.parameters, *group.ends), {})


def _binary(op: str, group: Group, finder: _Finder) -> Node | None:
    a, b = group.inputs
    if a is None or b is None or finder.is_int8_constant(a) or finder.is_int8_constant(b):
        return None
    return _quantized(op, group, (*a.parameters, *b.parameters, *group.ends), {})


def _unary(op: str, group: Group, finder: _Finder) -> Node | None:
    (x,) = group.inputs
    if x is None:
        return None
    opset = {"opset": group.node.version} if op == "QLinearSoftmax" else {}
    return _quantized(op, group, (*x.parameters, *group.ends), {**group.node.attributes, **opset})


def _concatenate(group: Group, finder: _Finder) -> Node | None:
    if any(each is None for each in group.inputs):
        return None
    parameters = (name for each in group.inputs if each for name in each.parameters)
    return _quantized("QLinearConcat", group, (*group.ends, *parameters), group.node.attributes)


_BUILDERS: dict[str, Callable[[Group, _Finder], Node | None]] = {
    "Add": partial(_binary, "QLinearAdd"),
    "AveragePool": partial(_unary, "QLinearAveragePool"),
    "Concat": _concatenate,
    "Conv": _convolution,
    "Gemm": _gemm,
    "GlobalAveragePool": partial(_unary, "QLinearGlobalAveragePool"),
    "LeakyRelu": partial(_unary, "QLinearLeakyRelu"),
    "MatMul": _product,
    "Mul": partial(_binary, "QLinearMul"),
    "Sigmoid": partial(_unary, "QLinearSigmoid"),
    "Softmax": partial(_unary, "QLinearSoftmax"),
}
