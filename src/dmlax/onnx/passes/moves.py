"""Moves bytes in place of the floats that are made of them."""

from dmlax.onnx.graph import Graph, Node

_MOVES = ("Flatten", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def move_bytes(graph: Graph) -> Graph:
    """Replaces each move of a dequantized tensor by one of its bytes, dequantized afterwards."""
    dequantized: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        before = dequantized.get(node.inputs[0]) if node.inputs else None
        if before is not None and _is_move(graph, node):
            (moved,) = node.outputs
            source = f"{moved}@bytes"
            nodes.append(
                node.replace(inputs=(before.inputs[0], *node.inputs[1:]), outputs=(source,))
            )
            node = before.replace(
                name=f"dequantize {moved}", inputs=(source, *before.inputs[1:]), outputs=(moved,)
            )
        if node.op == "DequantizeLinear" and _has_one_scale(graph, node):
            dequantized[node.outputs[0]] = node
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _is_move(graph: Graph, node: Node) -> bool:
    """True for an operator that fills in nothing: an index of a Gather may lie outside."""
    if node.domain or len(node.outputs) != 1:
        return False
    return node.op in _MOVES or (node.op == "Gather" and node.inputs[1] in graph.constants)


def _has_one_scale(graph: Graph, node: Node) -> bool:
    parameters = [graph.constants.get(name) for name in node.inputs[1:] if name]
    return all(each is not None and each.size == 1 for each in parameters)
