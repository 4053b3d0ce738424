"""Moves bytes in place of the floats that are made of them, or of which they are made."""

from collections.abc import Iterator, Mapping

from dmlax.onnx.graph import Graph, Node

_ORDERS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_MOVES = (*_ORDERS, "Slice")


def move_bytes(graph: Graph) -> Graph:
    """Replaces each move of a dequantized tensor by one of its bytes, dequantized afterwards."""
    dequantized: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        before = dequantized.get(node.inputs[0]) if node.inputs else None
        if before is not None and _is_move(graph, node):
            (moved,) = node.outputs
            source = graph.unused_name(f"{moved}@bytes")
            nodes.append(
                node.replace(inputs=(before.inputs[0], *node.inputs[1:]), outputs=(source,))
            )
            node = before.replace(
                name=f"dequantize {moved}", inputs=(source, *before.inputs[1:]), outputs=(moved,)
            )
        if node.op == "DequantizeLinear" and graph.has_one_scale(node):
            dequantized[node.outputs[0]] = node
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _is_move(graph: Graph, node: Node) -> bool:
    """True for an operator that fills in nothing: an index of a Gather may lie outside."""
    if node.domain or len(node.outputs) != 1:
        return False
    return node.op in _MOVES or (node.op == "Gather" and node.inputs[1] in graph.constants)


def quantize_before_moves(graph: Graph) -> Graph:
    """Replaces each quantization of elements in another order by one of the elements before."""
    producers = graph.single_use_producers()
    nodes: list[Node] = []
    for node in graph.nodes:
        moves = []  # the last first
        if node.op == "QuantizeLinear" and graph.has_one_scale(node):
            moves = list(_moves_of_one_reader(producers, node.inputs[0]))
        if moves:
            (last,), name = node.outputs, moves[-1].inputs[0]
            names = [graph.unused_name(f"{last}@{count}") for count in range(len(moves))] + [last]
            nodes.append(node.replace(inputs=(name, *node.inputs[1:]), outputs=(names[0],)))
        for count, move in enumerate(reversed(moves)):
            inputs = (names[count], *move.inputs[1:])
            nodes.append(move.replace(inputs=inputs, outputs=(names[count + 1],)))
        if not moves:
            nodes.append(node)
    return graph.replace(nodes=tuple(nodes)).prune()


def _moves_of_one_reader(producers: Mapping[str, Node], name: str) -> Iterator[Node]:
    """The nodes that order the elements of a tensor, the last first, each read once."""
    while (move := producers.get(name)) is not None:
        if move.op not in _ORDERS or move.domain:
            return
        yield move
        name = move.inputs[0]
