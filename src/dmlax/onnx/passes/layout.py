"""Computes channels last between the edges of a graph: what kernels read without a transpose."""

from collections.abc import Mapping
from typing import Any

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import OWN, Graph, Node

Avals = Mapping[str, Aval]
_SPATIAL = {"MaxPool", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool"}
_UNARY = {"ByteFunction", "QLinearLeakyRelu", "QLinearSigmoid"}
_BINARY = {"QLinearAdd": (0, 3), "QLinearMul": (0, 3)}
_CONCATENATIONS = {"Concat": (0, 1), "QLinearConcat": (2, 3)}  # the first tensor and the stride
_ADDEND = 8  # its place in a convolution that has one
CHANNELS_LAST = "@channels_last"  # behind the name of a tensor
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
Attributes = Mapping[str, Any]


def channels_last(graph: Graph, avals: Avals) -> Graph:
    """Gives images to convolutions and pools channels last, and what lies between them too.

    Args:
      graph: channels first, as ONNX is.
      avals: of every tensor; images have rank 4 and 8 bits.
    """
    layout = _Layout(graph, avals)
    for node in graph.nodes:
        layout.add(node)
    for name in graph.outputs:
        layout.channels_first(name)
    return graph.replace(nodes=tuple(layout.nodes))


class _Layout:
    """The new nodes, and which tensors exist in which layout."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.nodes: list[Node] = []
        self.graph, self.avals = graph, avals
        self.consumers = graph.consumers()
        self.last: dict[str, str] = {}
        written = {name for node in graph.nodes for name in node.outputs}
        self.first = {name for name in graph.tensors() if name not in written}

    def add(self, node: Node) -> None:
        """Adds a node in one of both layouts."""
        places = self._images(node)
        if places is None:
            for name in filter(None, node.inputs):
                self.channels_first(name)
            self.nodes.append(node)
            self.first.update(node.outputs)
            return
        inputs, attributes = list(node.inputs), {**node.attributes, **_attributes(node)}
        if self._transposes_itself(node):
            places, attributes = places[1:], {**attributes, "input_channels_first": 1}
        for place, name in enumerate(node.inputs):
            if place in places:
                inputs[place] = self.channels_last(name)
            elif name:  # as a filter that a convolution computes
                self.channels_first(name)
        output = node.outputs[0]  # what follows it is computed by no such operator
        self.last[output] = self.graph.unused_name(output + CHANNELS_LAST)
        outputs = (self.last[output],)
        self.nodes.append(
            node.replace(inputs=tuple(inputs), outputs=outputs, attributes=attributes)
        )

    def _transposes_itself(self, node: Node) -> bool:
        """True for a convolution which alone reads an image that is channels first: the first."""
        image = node.inputs[0]
        alone = len(self.consumers[image]) == 1
        return node.op == "QLinearConv" and image not in self.last and alone

    def _images(self, node: Node) -> tuple[int, ...] | None:
        """The places of a node's images if it computes channels last, else None."""
        if node.op == "QLinearConv" and node.domain == OWN:
            return (0, _ADDEND) if self._is_image(node.inputs[0]) else None
        if node.op in _SPATIAL:
            return (0,) if self._is_image(node.inputs[0]) and len(node.outputs) == 1 else None
        if node.op in _UNARY:
            return (0,) if node.inputs[0] in self.last else None
        if node.op in _CONCATENATIONS:
            return self._concatenated(node)
        places = _BINARY.get(node.op)
        if places is None:
            return None
        names = [node.inputs[place] for place in places]
        # ONNX Runtime's sum depends on how operands broadcast, so that only equal shapes move.
        if not all(self._is_image(name) for name in names):
            return None
        same = node.op == "QLinearMul" or self.avals[names[0]].shape == self.avals[names[1]].shape
        return places if same and any(name in self.last for name in names) else None

    def _concatenated(self, node: Node) -> tuple[int, ...] | None:
        """The places of images that are concatenated, of which one is channels last."""
        start, stride = _CONCATENATIONS[node.op]
        places = tuple(range(start, len(node.inputs), stride))
        names = [node.inputs[place] for place in places]
        fits = all(map(self._is_image, names)) and any(name in self.last for name in names)
        return places if fits else None

    def _is_image(self, name: str) -> bool:
        aval = self.avals.get(name)
        return aval is not None and len(aval.shape) == 4 and aval.dtype.itemsize == 1

    def channels_last(self, name: str) -> str:
        """The tensor channels last, transposed here if it does not exist so."""
        if name not in self.last:
            self.last[name] = self.graph.unused_name(name + CHANNELS_LAST)
            self.nodes.append(_transpose(name, self.last[name], TO_LAST))
        return self.last[name]

    def channels_first(self, name: str) -> None:
        """Has a tensor exist under its own name."""
        if name not in self.first and name in self.last:
            self.nodes.append(_transpose(self.last[name], name, TO_FIRST))
            self.first.add(name)


def _attributes(node: Node) -> Attributes:
    """The attributes that a node has channels last."""
    if node.op in _CONCATENATIONS:
        return {"axis": TO_LAST.index(node.attributes["axis"] % 4)}
    return {"channels_last": 1} if node.op in _SPATIAL else {}


def _transpose(source: str, target: str, permutation: tuple[int, ...]) -> Node:
    attributes = {"perm": permutation}
    return Node(f"transpose {target}", "Transpose", "", 13, (source,), (target,), attributes)
