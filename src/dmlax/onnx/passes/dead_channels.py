"""Gives a channel of scale 0 the scale 1, a zero filter and a zero bias."""

import numpy as np

from dmlax.onnx.graph import Graph, Node

_FILTER, _SCALE, _ZERO_POINT, _BIAS = 3, 4, 5, 8  # places of a QLinearConv's inputs


def revive_dead_channels(graph: Graph) -> Graph:
    """Replaces filter scales of 0, which quantizers write for a filter of zeros."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        nodes.append(_revive(graph, node, constants) if node.op == "QLinearConv" else node)
    return graph.replace(nodes=tuple(nodes), constants=constants)


def _revive(graph: Graph, node: Node, constants: dict[str, np.ndarray]) -> Node:
    places = (_FILTER, _SCALE, _ZERO_POINT, _BIAS)
    filter, scale, zero_point, bias = (constants.get(node.input(place)) for place in places)
    if scale is None or filter is None or not np.any(scale == 0):
        return node
    if not all(_fits(array, filter) for array in (scale, zero_point, bias)):
        return node  # the check of all nodes says so
    dead = np.broadcast_to(scale.ravel() == 0, (filter.shape[0],))
    channels = (-1, *(1,) * (filter.ndim - 1))
    zero = np.zeros(1, filter.dtype) if zero_point is None else zero_point
    zero = zero.reshape(channels).astype(filter.dtype)
    arrays = {
        _FILTER: np.where(dead.reshape(channels), zero, filter),
        _SCALE: np.where(scale == 0, np.float32(1), scale),
    }
    if bias is not None:
        arrays[_BIAS] = np.where(dead, np.int32(0), bias)
    names = list(node.inputs)
    for place, array in arrays.items():
        names[place] = graph.unused_name(f"{names[place]}@{node.outputs[0]}")
        constants[names[place]] = array
    return node.replace(inputs=tuple(names))


def _fits(parameter: np.ndarray | None, filter: np.ndarray) -> bool:
    """True for one number, or one for each output channel."""
    return parameter is None or (filter.ndim > 0 and parameter.size in (1, filter.shape[0]))
