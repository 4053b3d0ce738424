"""Computes with channels last inside a graph, which kernels read without a transpose."""

import numpy as np

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import OWN, Graph, Node

_SPATIAL = {
    "ByteAverage",
    "MaxPool",
    "QLinearAveragePool",
    "QLinearConv",
    "QLinearGlobalAveragePool",
}
_IMAGES = {  # the places of images
    **dict.fromkeys((*_SPATIAL, "ByteFunction", "QLinearLeakyRelu", "QLinearSigmoid"), slice(1)),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), slice(0, 6, 3)),
    "Concat": slice(None),
    "QLinearConcat": slice(2, None, 3),
}
_ADDEND = 8  # its place in a convolution that has one
_RESIDUAL = 4  # its place in a convolution of floats
_FLOAT_SPATIAL = {"GlobalAveragePool", "MaxPool"}  # these read floats channels last, too
_FUNCTIONS = {  # functions of one float work in any layout
    *("Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"),
    *("Mish", "Neg", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"),
}
_PAIRS = {"Add", "Div", "Mul", "Sub"}
CHANNELS_LAST = "@channels_last"  # suffix of a tensor's name
TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_FLOAT = np.dtype(np.float32)


def channels_last(graph: Graph, avals: Avals) -> Graph:
    """Gives images to convolutions and pools channels last, and to the operators between them.

    Args:
      graph: channels first, as ONNX is.
      avals: of every tensor; images have rank 4 and 8 bits, or are floats of a convolution.
    """
    layout = _Layout(graph, avals)
    for node in graph.nodes:
        layout.add(node)
    for name in graph.outputs:
        layout.channels_first(name)
    return _write_channels_first(graph.replace(nodes=tuple(layout.nodes)))


def _write_channels_first(graph: Graph) -> Graph:
    """Has float convolutions whose output is only transposed write channels first themselves."""
    written: dict[str, str] = {}
    for node in graph.nodes:
        made = graph.single_use_producers.get(node.input(0))
        is_convolution = made is not None and made.is_a("FloatConv", OWN)
        is_ours = is_convolution and node.input(0).startswith(node.outputs[0] + CHANNELS_LAST)
        if made and is_ours and node.is_a("Transpose") and not made.input(_RESIDUAL):
            written[node.input(0)] = node.outputs[0]

    def write(node: Node) -> Node | list[Node] | None:
        if node.outputs[0] in written:
            attributes = {**node.attributes, "output_channels_first": 1}
            return node.replace(outputs=(written[node.outputs[0]],), attributes=attributes)
        is_gone = node.is_a("Transpose") and node.input(0) in written
        return [] if is_gone else None

    return graph.rewrite(write) if written else graph


class _Layout:
    """The new nodes, and the tensors that exist channels first and channels last."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.nodes: list[Node] = []
        self.graph, self.avals = graph, avals
        self.last: dict[str, str] = {}
        self.first = {*graph.tensors} - graph.producers.keys()

    def add(self, node: Node) -> None:
        """Adds a node in one of both layouts."""
        places, outputs, attributes = self._images(node), node.outputs, dict(node.attributes)
        if places:
            attributes |= {"channels_last": 1} if self._is_spatial(node) else {}
            outputs = (self.graph.unused_name(node.outputs[0] + CHANNELS_LAST),)
        if places and node.op in ("Concat", "QLinearConcat"):
            attributes["axis"] = TO_LAST.index(node.attributes["axis"] % 4)
        if places and self._transposes_itself(node):
            places, attributes["input_channels_first"] = places[1:], 1
        inputs = tuple(
            self.channels_last(name) if place in places else self.channels_first(name)
            for place, name in enumerate(node.inputs)
        )
        self.nodes.append(node.replace(inputs=inputs, outputs=outputs, attributes=attributes))
        if outputs == node.outputs:
            self.first.update(outputs)
        else:
            self.last[node.outputs[0]] = outputs[0]

    def _transposes_itself(self, node: Node) -> bool:
        """True for a convolution which alone reads an image that is channels first: the first."""
        image = node.inputs[0]
        is_only_reader = len(self.graph.consumers[image]) == 1
        is_convolution = node.op in ("QLinearConv", "FloatConv")
        return is_convolution and image not in self.last and is_only_reader

    def _is_spatial(self, node: Node) -> bool:
        return node.op in _SPATIAL or node.op == "FloatConv" or node.op in _FLOAT_SPATIAL

    def _float_images(self, node: Node) -> tuple[int, ...]:
        """The places of float images if a node computes channels last, else none."""
        is_convolution = node.is_a("FloatConv", OWN)
        if len(node.outputs) != 1 or (node.domain and not is_convolution):
            return ()
        if is_convolution:
            places: tuple[int, ...] = (0, _RESIDUAL) if node.input(_RESIDUAL) else (0,)
        elif node.op in _FUNCTIONS | _FLOAT_SPATIAL:
            places = (0,)
        elif node.op in _PAIRS or node.op == "Concat":
            numbers = enumerate(map(self._is_number, node.inputs))
            places = tuple(place for place, is_number in numbers if not is_number)
        else:
            return ()
        names = [node.inputs[place] for place in places]
        is_moved = is_convolution or not self.last.keys().isdisjoint(names)
        return places if is_moved and all(self._is_image(x, _FLOAT) for x in names) else ()

    def _is_number(self, name: str) -> bool:
        """True for one value, which any layout takes as it is."""
        array = self.graph.constants.get(name)
        return array is not None and array.size == 1 and array.ndim < 2

    def _images(self, node: Node) -> tuple[int, ...]:
        """The places of a node's images if it computes channels last, else none."""
        if places := self._float_images(node):
            return places
        if node.op not in _IMAGES or len(node.outputs) != 1 or node.attributes.get("channels_last"):
            return ()
        places = tuple(range(len(node.inputs))[_IMAGES[node.op]])
        names = [node.inputs[place] for place in places]
        if not all(map(self._is_image, names)):
            return ()
        if node.op in _SPATIAL:
            return (0, _ADDEND) if node.is_a("QLinearConv", OWN) else (0,)
        if self.last.keys().isdisjoint(names):
            return ()
        # ONNX Runtime's sum depends on how operands broadcast, so that only equal shapes move.
        is_sum = node.op == "QLinearAdd"
        is_moved = not is_sum or len({self.avals[name].shape for name in names}) == 1
        return places if is_moved else ()

    def _is_image(self, name: str, dtype: np.dtype | None = None) -> bool:
        """True for an image of a dtype, by default of 8 bits."""
        aval = self.avals.get(name)
        if aval is None or len(aval.shape) != 4:
            return False
        return aval.dtype == dtype if dtype else aval.dtype.itemsize == 1

    def channels_last(self, name: str) -> str:
        """The name of the tensor channels last, which is transposed here if necessary."""
        if name not in self.last:
            self.last[name] = self.graph.unused_name(name + CHANNELS_LAST)
            self.nodes.append(_transpose(name, self.last[name], TO_LAST))
        return self.last[name]

    def channels_first(self, name: str) -> str:
        """Computes the tensor channels first, under the graph's name of it."""
        if name not in self.first and name in self.last:
            self.nodes.append(_transpose(self.last[name], name, TO_FIRST))
            self.first.add(name)
        return name


def _transpose(source: str, target: str, permutation: tuple[int, ...]) -> Node:
    attributes = {"perm": permutation}
    return Node(f"transpose {target}", "Transpose", "", 13, (source,), (target,), attributes)
