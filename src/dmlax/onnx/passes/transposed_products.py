"""Has a product of matrices read its right operand as it lies, and not a transposed copy."""

from dmlax.onnx.graph import MICROSOFT, Graph, Node


def fuse_transposes(graph: Graph) -> Graph:
    """Replaces the MatMul of a Transpose of the last two axes by a FusedMatMul."""
    producers = graph.producers()

    def fused(node: Node) -> Node:
        if (node.op, node.domain) != ("MatMul", ""):
            return node
        left, right = node.inputs
        transpose = producers.get(right)
        if transpose is None or not _swaps_last(transpose):
            return node
        return node.replace(
            op="FusedMatMul",
            domain=MICROSOFT,
            version=1,
            inputs=(left, transpose.inputs[0]),
            attributes={"transB": 1},
        )

    return graph.replace(nodes=tuple(map(fused, graph.nodes))).prune()


def _swaps_last(node: Node) -> bool:
    perm = node.attributes.get("perm")
    if (node.op, node.domain) != ("Transpose", "") or perm is None or len(perm) < 2:
        return False
    *others, one, other = range(len(perm))
    return tuple(perm) == (*others, other, one)
