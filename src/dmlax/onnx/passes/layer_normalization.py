"""Fuses a layer normalization with the floats that are made of bytes, and made into bytes."""

import numpy as np

from dmlax.onnx.graph import OWN, Graph, Node
from dmlax.onnx.passes.qdq import keeps_float32


def fuse_layer_normalizations(graph: Graph) -> Graph:
    """Replaces DequantizeLinear, LayerNormalization, QuantizeLinear by one operator."""
    producers, single_use = graph.producers(), graph.single_use_producers()
    needed = {*graph.outputs, *graph.consumers()}

    def fused(node: Node) -> Node:
        if node.op != "QuantizeLinear" or not _is_of_bytes(graph, node):
            return node
        normalization = producers.get(node.inputs[0])
        if normalization is None or not _is_of_last_axis(normalization):
            return node
        y, *others = normalization.outputs
        if y not in single_use or needed.intersection(others):
            return node
        before = producers.get(normalization.inputs[0])
        if before is None or before.op != "DequantizeLinear" or not _is_of_bytes(graph, before):
            return node
        return _of_bytes(before, normalization, node)

    return graph.replace(nodes=tuple(map(fused, graph.nodes))).prune()


def _of_bytes(dequantize: Node, normalization: Node, quantize: Node) -> Node:
    """One node of three."""
    scale, bias = (*normalization.inputs[1:], "")[:2]
    own = {name: x for name, x in normalization.attributes.items() if name == "epsilon"}
    inputs = (*dequantize.inputs, scale, bias, *quantize.inputs[1:])
    op = "QuantizedLayerNormalization"
    return quantize.replace(op=op, domain=OWN, version=1, inputs=inputs, attributes=own)


def _is_of_last_axis(node: Node) -> bool:
    is_known = (node.op, node.domain) == ("LayerNormalization", "")
    return is_known and node.attributes.get("axis", -1) == -1


def _is_of_bytes(graph: Graph, node: Node) -> bool:
    """True for one scale and an 8-bit zero point."""
    if len(node.inputs) < 3 or not graph.has_one_scale(node):
        return False
    _, scale, zero_point = node.inputs
    is_float32 = node.op == "QuantizeLinear" or keeps_float32(node)
    if not zero_point or graph.constants[scale].dtype != np.float32 or not is_float32:
        return False
    return graph.constants[zero_point].dtype in (np.int8, np.uint8)
