"""Computes with channels last inside a graph, which kernels read without a transpose."""

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import OWN, Graph, Node

_SPATIAL = {"MaxPool", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool"}
_UNARY = {"ByteFunction", "QLinearLeakyRelu", "QLinearSigmoid"}
_BINARY = {"QLinearAdd", "QLinearMul"}
_CONCATENATIONS = {"Concat": (0, 1), "QLinearConcat": (2, 3)}  # the first tensor and the stride
_ADDEND = 8  # its place in a convolution that has one
CHANNELS_LAST = "@channels_last"  # suffix of a tensor's name
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def channels_last(graph: Graph, avals: Avals) -> Graph:
    """Gives images to convolutions and pools channels last, and to the operators between them.

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
    """The new nodes, and the tensors that exist channels first and channels last."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.nodes: list[Node] = []
        self.graph, self.avals = graph, avals
        self.last: dict[str, str] = {}
        self.first = graph.tensors() - graph.producers.keys()

    def add(self, node: Node) -> None:
        """Adds a node in one of both layouts."""
        places = self._images(node)
        if not places:
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
        output = node.outputs[0]
        self.last[output] = self.graph.unused_name(output + CHANNELS_LAST)
        outputs = (self.last[output],)
        self.nodes.append(
            node.replace(inputs=tuple(inputs), outputs=outputs, attributes=attributes)
        )

    def _transposes_itself(self, node: Node) -> bool:
        """True for a convolution which alone reads an image that is channels first: the first."""
        image = node.inputs[0]
        is_only_reader = len(self.graph.consumers[image]) == 1
        return node.op == "QLinearConv" and image not in self.last and is_only_reader

    def _images(self, node: Node) -> tuple[int, ...]:
        """The places of a node's images if it computes channels last, else none."""
        if node.op in _SPATIAL:
            if not self._is_image(node.inputs[0]) or len(node.outputs) != 1:
                return ()
            return (0, _ADDEND) if node.is_a("QLinearConv", OWN) else (0,)
        if node.op in _UNARY:
            return (0,) if node.inputs[0] in self.last else ()
        places: tuple[int, ...] = (0, 3) if node.op in _BINARY else ()
        if node.op in _CONCATENATIONS:
            start, stride = _CONCATENATIONS[node.op]
            places = tuple(range(start, len(node.inputs), stride))
        names = [node.inputs[place] for place in places]
        if not all(map(self._is_image, names)) or self.last.keys().isdisjoint(names):
            return ()
        # ONNX Runtime's sum depends on how operands broadcast, so that only equal shapes move.
        is_sum = node.op == "QLinearAdd"
        is_moved = not is_sum or len({self.avals[name].shape for name in names}) == 1
        return places if is_moved else ()

    def _is_image(self, name: str) -> bool:
        aval = self.avals.get(name)
        return aval is not None and len(aval.shape) == 4 and aval.dtype.itemsize == 1

    def channels_last(self, name: str) -> str:
        """The name of the tensor channels last, which is transposed here if necessary."""
        if name not in self.last:
            self.last[name] = self.graph.unused_name(name + CHANNELS_LAST)
            self.nodes.append(_transpose(name, self.last[name], TO_LAST))
        return self.last[name]

    def channels_first(self, name: str) -> None:
        """Computes the tensor channels first, under the graph's name of it."""
        if name not in self.first and name in self.last:
            self.nodes.append(_transpose(self.last[name], name, TO_FIRST))
            self.first.add(name)


def _attributes(node: Node) -> dict[str, int]:
    """The attributes that a node has channels last."""
    if node.op in _CONCATENATIONS:
        return {"axis": TO_LAST.index(node.attributes["axis"] % 4)}
    return {"channels_last": 1} if node.op in _SPATIAL else {}


def _transpose(source: str, target: str, permutation: tuple[int, ...]) -> Node:
    attributes = {"perm": permutation}
    return Node(f"transpose {target}", "Transpose", "", 13, (source,), (target,), attributes)
