"""Fuses the product of a tensor and its sigmoid into one lookup."""

from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node

_FACTORS = (0, 3)  # the places of a QLinearMul's operands, each before its scale and zero point


def fuse_swishes(graph: Graph) -> Graph:
    """Replaces each QLinearMul of a tensor and its QLinearSigmoid; a result is 1 of 256."""
    producers = graph.producers()
    nodes = []
    for node in graph.nodes:
        places = _FACTORS if (node.op, node.domain) == ("QLinearMul", MICROSOFT) else ()
        for place in places:
            sigmoid = producers.get(node.inputs[place])
            if sigmoid is not None and _fits(graph, sigmoid, node, place):
                node = _fuse(sigmoid, node)
                break
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _fits(graph: Graph, sigmoid: Node, product: Node, place: int) -> bool:
    """True for the sigmoid of the other factor, of the same known parameters."""
    if (sigmoid.op, sigmoid.domain) != ("QLinearSigmoid", MICROSOFT):
        return False
    if len(sigmoid.inputs) != 5 or len(product.inputs) != 8:
        return False
    names = (*sigmoid.inputs[1:], *product.inputs[6:])
    other = _FACTORS[place == 0]
    wanted = *product.inputs[other : other + 3], *product.inputs[place + 1 : place + 3]
    same = map(graph.are_equal, sigmoid.inputs, wanted)
    return all(name in graph.constants for name in names) and all(same)


def _fuse(sigmoid: Node, product: Node) -> Node:
    inputs = (*sigmoid.inputs, *product.inputs[6:])
    return product.replace(op="QLinearSwish", domain=OWN, version=1, inputs=inputs)
