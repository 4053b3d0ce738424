"""Makes one node of the products of an attention and the softmax between them."""

from collections.abc import Mapping

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node

Avals = Mapping[str, Aval]
_HEADS_LAST = (0, 2, 1, 3)


def fuse_attention(graph: Graph, avals: Avals) -> Graph:
    """Replaces a product, the softmax of its rows, and the product of that by one node.

    Args:
      graph: tensors that it gives are not fused.
      avals: of every tensor.
    """
    producers = graph.single_use_producers()
    nodes = tuple(_fused(graph, producers, avals, node) for node in graph.nodes)
    return _store_heads_last(graph.replace(nodes=nodes).prune())


def _fused(graph: Graph, producers: Mapping[str, Node], avals: Avals, node: Node) -> Node:
    """The attention whose second product a node is, or the node as it is."""
    if (node.op, node.domain) != ("QLinearMatMul", ""):
        return node
    softmax = _before(producers, node, "QLinearSoftmax", MICROSOFT)
    if softmax is None or not _is_of_rows(softmax, avals):
        return node
    scores = _before(producers, softmax, "QLinearMatMul", "")
    if scores is None or not _are_equal(graph, scores, softmax, node):
        return node
    inputs = (*scores.inputs, *node.inputs[1:])
    return node.replace(op="QLinearAttention", domain=OWN, version=1, inputs=inputs, attributes={})


def _before(producers: Mapping[str, Node], node: Node, op: str, domain: str) -> Node | None:
    """The node of such a kind that gives the first input."""
    found = producers.get(node.inputs[0])
    return found if found is not None and (found.op, found.domain) == (op, domain) else None


def _store_heads_last(graph: Graph) -> Graph:
    """Has an attention store the heads of a row side by side where a transposition follows it."""
    producers = graph.single_use_producers()
    nodes = []
    for node in graph.nodes:
        is_move = (node.op, node.domain) == ("Transpose", "")
        before = _before(producers, node, "QLinearAttention", OWN) if is_move else None
        if before is not None and node.attributes.get("perm") == _HEADS_LAST:
            node = before.replace(outputs=node.outputs, attributes={"heads_last": 1})
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes)).prune()


def _is_of_rows(softmax: Node, avals: Avals) -> bool:
    """True for a softmax that keeps the dtype, along the last axis, whose size is known."""
    aval, output = avals.get(softmax.inputs[0]), avals.get(softmax.outputs[0])
    if aval is None or output is None or aval.dtype != output.dtype:
        return False
    if not isinstance(aval.shape[-1], int):
        return False
    default = -1 if softmax.attributes.get("opset", 13) >= 13 else 1
    axis = softmax.attributes.get("axis", default)
    return (default if axis is None else axis) in (-1, len(aval.shape) - 1)


def _are_equal(graph: Graph, scores: Node, softmax: Node, values: Node) -> bool:
    """True if each reads its operand with the parameters of the node that writes it."""
    if len(softmax.inputs) < 5:
        return False
    pairs = zip(
        (*scores.inputs[6:8], *softmax.inputs[3:5]),
        (*softmax.inputs[1:3], *values.inputs[1:3]),
        strict=True,
    )
    return all(one and graph.are_equal(one, other) for one, other in pairs)
