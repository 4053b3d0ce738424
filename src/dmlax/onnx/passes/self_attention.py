"""Fuses an attention with the QGemm that makes its queries, keys and values at once."""

from collections.abc import Mapping
from typing import NamedTuple

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.operators.self_attention import Function

Avals = Mapping[str, Aval]
_GEMM_INPUTS = 9  # with its bias or without
_PLACES = (0, 3, 10)  # of an attention's queries, keys and values
_PARTS_FIRST = (2, 0, 3, 1, 4)  # of (images, rows, 3, heads, columns)
_KEYS = (0, 1, 3, 2)  # columns before rows


class _Part(NamedTuple):
    """The queries, the keys or the values: what is taken of the transposition."""

    source: str
    number: int
    function: Function


def fuse_self_attention(graph: Graph, avals: Avals) -> Graph:
    """Replaces an attention, the split of a QGemm's output before it, and the QGemm by one node.

    Args:
      graph: tensors that it gives are not fused.
      avals: of every tensor.
    """
    matcher = _Matcher(graph, avals)
    nodes = tuple(matcher.fuse(node) for node in graph.nodes)
    return graph.replace(nodes=nodes).prune()


class _Matcher:
    """Finds what makes the operands of an attention."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.graph, self.avals, self.producers = graph, avals, graph.producers()
        self.consumers, self.single_use = graph.consumers(), graph.single_use_producers()

    def fuse(self, node: Node) -> Node:
        """The fused node, or the same."""
        if (node.op, node.domain) != ("QLinearAttention", OWN):
            return node
        parts = [self._part(node.inputs[place], place == _PLACES[1]) for place in _PLACES]
        found = [part for part in parts if part is not None]
        sources = {part.source for part in found}
        if [part.number for part in found] != [0, 1, 2] or len(sources) != 1:
            return node
        split = self._split(*sources)
        if split is None:
            return node
        gemm, sizes = split
        parameters = [name for i, name in enumerate(node.inputs) if i not in _PLACES]
        functions = tuple(part.function for part in found)
        names = tuple(dict.fromkeys(name for each in functions for name in each.names[1:]))
        attributes = {"functions": functions, "names": names, "sizes": sizes}
        return node.replace(
            op="QLinearSelfAttention",
            inputs=(*gemm.inputs, *parameters, *names),
            attributes={**gemm.attributes, **node.attributes, **attributes},
        )

    def _before(self, name: str, op: str, domain: str = "") -> Node | None:
        """The node that makes a tensor which nothing else reads."""
        node = self.single_use.get(name)
        return node if node is not None and (node.op, node.domain) == (op, domain) else None

    def _part(self, name: str, is_keys: bool) -> _Part | None:
        if is_keys:
            transpose = self._before(name, "Transpose")
            if transpose is None or transpose.attributes.get("perm") != _KEYS:
                return None
            (name,) = transpose.inputs
        function = Function((), (name,))
        if (of_bytes := self._before(name, "ByteFunction", OWN)) is not None:
            name = of_bytes.inputs[0]
            function = Function(of_bytes.attributes["nodes"], of_bytes.attributes["names"])
        gather = self._before(name, "Gather")
        index = None if gather is None else self.graph.constants.get(gather.inputs[1])
        if gather is None or index is None or index.shape or gather.attributes.get("axis", 0):
            return None
        return _Part(gather.inputs[0], int(index), function)

    def _split(self, name: str) -> tuple[Node, tuple[int, ...]] | None:
        """The QGemm whose rows have queries, keys and values; rows, heads and their columns."""
        transpose = self.producers.get(name)
        if transpose is None or transpose.op != "Transpose" or transpose.domain:
            return None
        alone = len(self.consumers[name]) == 3 and name not in self.graph.outputs
        if not alone or transpose.attributes.get("perm") != _PARTS_FIRST:
            return None
        reshape = self._before(transpose.inputs[0], "Reshape")
        shape = None if reshape is None else self.graph.constants.get(reshape.inputs[1])
        gemm = None if reshape is None else self._before(reshape.inputs[0], "QGemm", MICROSOFT)
        if gemm is None or shape is None or len(gemm.inputs) != _GEMM_INPUTS or shape.size != 5:
            return None
        first, rows, three, heads, columns = map(int, shape)
        whole = first == -1 and three == 3 and min(rows, heads, columns) > 0
        aval = self.avals.get(gemm.outputs[0])
        fits = aval is not None and aval.shape[-1] == 3 * heads * columns
        return (gemm, (rows, heads, columns)) if whole and fits else None
