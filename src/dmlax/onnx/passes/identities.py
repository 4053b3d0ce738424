"""Drops nodes that return their input."""

from dmlax.onnx.graph import Graph, Node, rename_inputs

_IDENTITIES = ("Identity", "Dropout")


def drop_identities(graph: Graph) -> Graph:
    """Has the readers of a copy read what is copied."""
    names = {node.outputs[0]: node.inputs[0] for node in graph.nodes if _is_copy(node)}
    kept = [node for node in graph.nodes if not _is_copy(node) or node.outputs[0] in graph.outputs]
    return graph.replace(nodes=rename_inputs(kept, names))


def _is_copy(node: Node) -> bool:
    return node.op in _IDENTITIES and not node.domain and not any(node.outputs[1:])
