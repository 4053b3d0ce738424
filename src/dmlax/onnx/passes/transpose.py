"""Transposes the weights of a product once, so that they can be packed."""

import numpy as np

from dmlax.onnx.graph import Graph, Node

_WEIGHT = 3  # its place in a QGemm


def transpose_weights(graph: Graph) -> Graph:
    """Replaces a QGemm's constant weight that it transposes by its transpose."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        nodes.append(_transpose(node, constants) if node.op == "QGemm" else node)
    return graph.replace(nodes=tuple(nodes), constants=constants)


def _transpose(node: Node, constants: dict[str, np.ndarray]) -> Node:
    weight = constants.get(node.inputs[_WEIGHT])
    if weight is None or weight.ndim != 2 or not node.attributes.get("transB"):
        return node
    name = f"{node.inputs[_WEIGHT]}@transposed"
    constants[name] = np.ascontiguousarray(weight.T)
    inputs = (*node.inputs[:_WEIGHT], name, *node.inputs[_WEIGHT + 1 :])
    return node.replace(inputs=inputs, attributes={**node.attributes, "transB": 0})
