"""Moves bytes instead of the floats that are made of them, or of which they are made."""

from collections.abc import Iterator

from dmlax.onnx.graph import Graph, Node

_ORDERS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_MOVES = (*_ORDERS, "Slice")


def move_bytes(graph: Graph) -> Graph:
    """Moves the bytes of a dequantized tensor, and dequantizes them afterwards."""
    dequantized: dict[str, Node] = {}

    def move(node: Node) -> list[Node]:
        nodes = []
        before = dequantized.get(node.input(0))
        if before is not None and _is_move(graph, node):
            (moved,) = node.outputs
            source = graph.unused_name(f"{moved}@bytes")
            inputs = (before.inputs[0], *node.inputs[1:])
            nodes.append(node.replace(inputs=inputs, outputs=(source,)))
            inputs = (source, *before.inputs[1:])
            node = before.replace(name=f"dequantize {moved}", inputs=inputs, outputs=(moved,))
        if node.op == "DequantizeLinear" and graph.has_one_scale(node):
            dequantized[node.outputs[0]] = node
        return [*nodes, node]

    return graph.rewrite(move)


def _is_move(graph: Graph, node: Node) -> bool:
    """True for an operator that fills in nothing: an index of a Gather may lie outside."""
    if node.domain or len(node.outputs) != 1:
        return False
    return node.op in _MOVES or (node.op == "Gather" and node.inputs[1] in graph.constants)


def quantize_before_moves(graph: Graph) -> Graph:
    """Quantizes elements before the nodes that order them, not after."""

    def swap(quantize: Node) -> list[Node] | None:
        if quantize.op != "QuantizeLinear" or not graph.has_one_scale(quantize):
            return None
        moves = [*_moves_before(graph, quantize.inputs[0])][::-1]
        if not moves:
            return None
        (last,) = quantize.outputs
        names = [graph.unused_name(f"{last}@{count}") for count in range(len(moves))] + [last]
        inputs = (moves[0].inputs[0], *quantize.inputs[1:])
        nodes = [quantize.replace(inputs=inputs, outputs=(names[0],))]
        for move, source, moved in zip(moves, names, names[1:], strict=False):
            nodes.append(move.replace(inputs=(source, *move.inputs[1:]), outputs=(moved,)))
        return nodes

    return graph.rewrite(swap)


def _moves_before(graph: Graph, name: str) -> Iterator[Node]:
    """The nodes that order the elements of a tensor, the last first, all read once."""
    while (move := graph.single_use_producers.get(name)) is not None:
        if move.op not in _ORDERS or move.domain:
            return
        yield move
        name = move.inputs[0]
