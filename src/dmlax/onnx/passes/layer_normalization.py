"""Fuses a layer normalization with the floats that are made of bytes, and made into bytes."""

import numpy as np

from dmlax.onnx.graph import OWN, Graph, Node


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
        scale, bias = (*normalization.inputs[1:], "")[:2]
        return node.replace(
            op="QuantizedLayerNormalization",
            domain=OWN,
            version=1,
            inputs=(*before.inputs, scale, bias, *node.inputs[1:]),
            attributes={
                name: value for name, value in normalization.attributes.items() if name == "epsilon"
            },
        )

    return graph.replace(nodes=tuple(map(fused, graph.nodes))).prune()


def _is_of_last_axis(node: Node) -> bool:
    is_known = (node.op, node.domain) == ("LayerNormalization", "")
    return is_known and node.attributes.get("axis", -1) == -1


def _is_of_bytes(graph: Graph, node: Node) -> bool:
    """True for one scale and an 8-bit zero point."""
    if len(node.inputs) < 3 or not graph.has_one_scale(node):
        return False
    _, scale, zero_point = node.inputs
    if not zero_point or graph.constants[scale].dtype != np.float32:
        return False
    return graph.constants[zero_point].dtype in (np.int8, np.uint8)
