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

    def before(name: str, op: str, domain: str) -> Node | None:
        node = producers.get(name)
        return node if node is not None and (node.op, node.domain) == (op, domain) else None

    nodes = []
    for node in graph.nodes:
        softmax = scores = None
        if (node.op, node.domain) == ("QLinearMatMul", ""):
            softmax = before(node.inputs[0], "QLinearSoftmax", MICROSOFT)
        if softmax is not None and _is_of_rows(softmax, avals):
            scores = before(softmax.inputs[0], "QLinearMatMul", "")
        if softmax is not None and scores is not None and _are_equal(graph, scores, softmax, node):
            inputs = (*scores.inputs, *node.inputs[1:])
            node = node.replace(
                op="QLinearAttention", domain=OWN, version=1, inputs=inputs, attributes={}
            )
        nodes.append(node)
    return _store_heads_last(graph.replace(nodes=tuple(nodes)).prune())


def _store_heads_last(graph: Graph) -> Graph:
    """Has an attention store the heads of a row side by side where a transposition follows it."""
    producers = graph.single_use_producers()
    nodes = []
    for node in graph.nodes:
        if (node.op, node.domain) == ("Transpose", "") and node.attributes.get(
            "perm"
        ) == _HEADS_LAST:
            (source,) = node.inputs
            before = producers.get(source)
            if before is not None and before.op == "QLinearAttention":
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
