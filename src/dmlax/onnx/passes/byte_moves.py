"""Moves bytes instead of the floats that are made of them, or of which they are made."""

from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.passes.patterns import swap

_ORDERS = ("Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_MOVES = (*_ORDERS, "Slice")


def move_bytes(graph: Graph) -> Graph:
    """Moves the bytes of a dequantized tensor, and dequantizes them afterwards."""
    dequantized: dict[str, Node] = {}

    def move(node: Node) -> list[Node]:
        nodes, before = [node], dequantized.get(node.input(0))
        if before is not None and _is_move(graph, node):
            before = before.replace(name=f"dequantize {node.outputs[0]}")
            nodes = swap(graph, before, node, "bytes")
        if nodes[-1].op == "DequantizeLinear" and graph.has_one_scale(nodes[-1]):
            dequantized[node.outputs[0]] = nodes[-1]
        return nodes

    return graph.rewrite(move)


def _is_move(graph: Graph, node: Node) -> bool:
    """True for an operator that fills in nothing: an index of a Gather may lie outside."""
    if node.domain or len(node.outputs) != 1:
        return False
    return node.op in _MOVES or (node.op == "Gather" and node.inputs[1] in graph.constants)


def quantize_before_moves(graph: Graph) -> Graph:
    """Quantizes elements before the nodes that order them, not after."""

    def quantize_first(quantize: Node) -> list[Node] | None:
        move = graph.single_use_producers.get(quantize.input(0))
        if move is None or move.op not in _ORDERS or move.domain:
            return None
        if quantize.op != "QuantizeLinear" or not graph.has_one_scale(quantize):
            return None
        first, last = swap(graph, move, quantize, "quantized")
        return [*(quantize_first(first) or [first]), last]

    return graph.rewrite(quantize_first)
