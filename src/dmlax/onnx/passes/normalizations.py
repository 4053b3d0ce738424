"""Fuses normalizations that a file spells out by ReduceMean, Sqrt and Div."""

from collections.abc import Mapping

from dmlax.onnx.graph import OWN, Graph, Node


def fuse_normalizations(graph: Graph) -> Graph:
    """Replaces layer and root-mean-square normalizations of the last axis by one node."""
    finder = _Finder(graph)
    nodes = []
    for node in graph.nodes:
        fused = finder.with_bias(node) or finder.scaled(node)
        nodes.append(fused or node)
    return graph.replace(nodes=tuple(nodes)).prune()


class _Finder:
    """Matches the nodes of a normalization backwards from its last one."""

    def __init__(self, graph: Graph) -> None:
        self._constants = graph.constants
        self._producers: Mapping[str, Node] = graph.producers()
        self._single = graph.single_use_producers()

    def with_bias(self, node: Node) -> Node | None:
        """The normalization for the Add of its bias."""
        for name, bias in self._pairs(node, "Add"):
            fused = self.scaled(self._single.get(name))
            addend = self._constants.get(bias)
            if fused is None or addend is None:
                continue
            if addend.shape == self._constants[fused.inputs[1]].shape:
                inputs = (*fused.inputs, bias)
                return fused.replace(name=node.name, inputs=inputs, outputs=node.outputs)
        return None

    def scaled(self, node: Node | None) -> Node | None:
        """The normalization for the Mul by its scale."""
        for name, scale in self._pairs(node, "Mul"):
            factor = self._constants.get(scale)
            if node is None or factor is None or factor.ndim != 1 or factor.size < 2:
                continue
            found = self._normalized(self._single.get(name))
            if found is None:
                continue
            x, epsilon = found
            centred = self._centred(x)
            if centred is None:
                kind = {"op": "RootMeanSquareNormalization", "domain": OWN, "version": 1}
            else:
                kind, x = {"op": "LayerNormalization", "domain": "", "version": 17}, centred
            attributes = {"epsilon": epsilon}
            return node.replace(inputs=(x, scale), attributes=attributes, **kind)
        return None

    def _normalized(self, node: Node | None) -> tuple[str, float] | None:
        """The tensor that a node divides by the root of its mean square, and the epsilon."""
        if node is None or node.domain:
            return None
        if node.op == "Div":
            pairs = [(node.inputs[0], self._producers.get(node.inputs[1]))]
        elif node.op == "Mul":
            pairs = [(x, self._inverted(y)) for x, y in (node.inputs, node.inputs[::-1])]
        else:
            return None
        for x, root in pairs:
            epsilon = self._epsilon(root, x)
            if epsilon is not None:
                return x, epsilon
        return None

    def _inverted(self, name: str) -> Node | None:
        """The node whose output a Reciprocal or a Div of 1 inverts."""
        node = self._producers.get(name)
        if node is None or node.domain:
            return None
        if node.op == "Reciprocal":
            return self._producers.get(node.inputs[0])
        is_inverse = node.op == "Div" and self._value(node.inputs[0]) == 1
        return self._producers.get(node.inputs[1]) if is_inverse else None

    def _epsilon(self, root: Node | None, x: str) -> float | None:
        """The epsilon, if a node is the root of the mean square of x plus epsilon."""
        if root is None or (root.op, root.domain) != ("Sqrt", ""):
            return None
        for name, epsilon in self._pairs(self._producers.get(root.inputs[0]), "Add"):
            value = self._value(epsilon)
            mean = self._mean(name)
            if value is not None and mean is not None and self._is_square(mean, x):
                return value
        return None

    def _mean(self, name: str) -> str | None:
        """The tensor whose mean along the last axis another is."""
        node = self._producers.get(name)
        if node is None or (node.op, node.domain) != ("ReduceMean", ""):
            return None
        axes = node.attributes.get("axes")
        if len(node.inputs) > 1:
            given = self._constants.get(node.inputs[1])
            axes = None if given is None else tuple(given.ravel().tolist())
        is_last = axes is not None and tuple(axes) == (-1,) and node.attributes.get("keepdims", 1)
        return node.inputs[0] if is_last else None

    def _is_square(self, name: str, x: str) -> bool:
        node = self._producers.get(name)
        if node is None or node.domain:
            return False
        if node.op == "Pow":
            return node.inputs[0] == x and self._value(node.inputs[1]) == 2
        return node.op == "Mul" and tuple(node.inputs) == (x, x)

    def _centred(self, name: str) -> str | None:
        """The tensor from which a node subtracts its mean."""
        node = self._producers.get(name)
        if node is None or (node.op, node.domain) != ("Sub", ""):
            return None
        x, mean = node.inputs
        return x if self._mean(mean) == x else None

    def _pairs(self, node: Node | None, op: str) -> tuple[tuple[str, str], ...]:
        """The inputs of a commutative node in both orders; none for a node of another type."""
        if node is None or (node.op, node.domain) != (op, ""):
            return ()
        a, b = node.inputs
        return (a, b), (b, a)

    def _value(self, name: str) -> float | None:
        """The value of a float constant of one element."""
        constant = self._constants.get(name)
        is_one = constant is not None and constant.size == 1
        return float(constant.ravel()[0]) if constant is not None and is_one else None
