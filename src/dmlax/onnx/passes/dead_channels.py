"""Gives a channel of scale 0 the scale 1 and zero weights, and takes its integer bias away."""

from typing import NamedTuple

import numpy as np

from dmlax.onnx.graph import MICROSOFT, Graph, Node


class _Places(NamedTuple):
    """The places of an operator's weights, their parameters and its int32 bias."""

    weights: int
    scale: int
    zero_point: int
    bias: int | None = None  # float biases have no scale


_CONVOLUTION = _Places(3, 4, 5, 8)
_OPERATORS = {
    ("DynamicQuantizeMatMul", MICROSOFT): _Places(1, 2, 3),
    ("MatMulIntegerToFloat", MICROSOFT): _Places(1, 3, 5),
    ("QGemm", MICROSOFT): _Places(3, 4, 5, 6),
    ("QLinearConv", ""): _CONVOLUTION,
    ("QLinearConv", MICROSOFT): _CONVOLUTION,
    ("QLinearMatMul", ""): _Places(3, 4, 5),
}


def revive_dead_channels(graph: Graph) -> Graph:
    """Replaces weights' scales of 0, which quantizers write for channels of zeros."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        places = _OPERATORS.get((node.op, node.domain))
        nodes += [node] if places is None else _revive(graph, node, places, constants)
    return graph.replace(nodes=tuple(nodes), constants=constants)


def _revive(
    graph: Graph, node: Node, places: _Places, constants: dict[str, np.ndarray]
) -> list[Node]:
    weights, scale, zero_point = (graph.constants.get(node.input(place)) for place in places[:3])
    if weights is None or scale is None or not np.any(scale == 0):
        return [node]
    is_first = node.op == "QLinearConv" or (node.op == "QGemm" and node.attributes.get("transB"))
    axis = 0 if is_first else weights.ndim - 1
    if not all(_fits(array, weights, axis) for array in (scale, zero_point)):
        return [node]  # the check of all nodes says so
    names = list(node.inputs)

    def add(place: int, array: np.ndarray) -> None:
        names[place] = graph.unused_name(f"{names[place]}@{node.outputs[0]}")
        constants[names[place]] = array

    dead = np.broadcast_to(scale.ravel() == 0, (weights.shape[axis],))
    channels = [-1 if i == axis else 1 for i in range(weights.ndim)]
    zero = np.zeros(1, weights.dtype) if zero_point is None else zero_point
    zero = zero.reshape(channels).astype(weights.dtype)
    add(places.weights, np.where(dead.reshape(channels), zero, weights))
    add(places.scale, np.where(scale == 0, np.float32(1), scale))
    bias = "" if places.bias is None else node.input(places.bias)
    if places.bias is None or not bias:
        return [node.replace(inputs=tuple(names))]
    if bias in graph.constants:
        add(places.bias, np.where(dead, np.int32(0), graph.constants[bias]))
        return [node.replace(inputs=tuple(names))]
    lives = graph.unused_name(f"{node.outputs[0]}@lives")
    constants[lives] = (~dead).astype(np.int32)
    names[places.bias] = graph.unused_name(f"{bias}@{node.outputs[0]}")
    outputs = (names[places.bias],)
    product = Node(f"{node.name}@bias", "Mul", "", 14, (bias, lives), outputs, {})
    return [product, node.replace(inputs=tuple(names))]


def _fits(parameter: np.ndarray | None, weights: np.ndarray, axis: int) -> bool:
    """True for one number, or one for each output channel."""
    return parameter is None or (weights.ndim > 0 and parameter.size in (1, weights.shape[axis]))
