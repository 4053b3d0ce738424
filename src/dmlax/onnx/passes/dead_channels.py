"""Gives a channel of scale 0 the scale 1, a zero filter and a zero bias."""

import numpy as np

from dmlax.onnx.graph import Graph, Node


def revive_dead_channels(graph: Graph) -> Graph:
    """Replaces filter scales of 0, which quantizers write for a filter of zeros."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        nodes.append(_revive(graph, node, constants) if node.op == "QLinearConv" else node)
    return graph.replace(nodes=tuple(nodes), constants=constants)


def _revive(graph: Graph, node: Node, constants: dict[str, np.ndarray]) -> Node:
    names = list(node.inputs)
    scale = constants.get(names[4])
    filter = constants.get(names[3])
    zero_point = constants.get(names[5])
    bias = constants.get(names[8]) if len(names) > 8 else None
    if scale is None or filter is None or not np.any(scale == 0):
        return node
    if not all(_fits(each, filter) for each in (scale, zero_point, bias)):
        return node  # the check of all nodes says so
    dead = np.broadcast_to(scale.ravel() == 0, (filter.shape[0],))
    zero = np.zeros(1, filter.dtype) if zero_point is None else zero_point
    zero = zero.reshape(-1, *(1,) * (filter.ndim - 1)).astype(filter.dtype)
    mask = dead.reshape(-1, *(1,) * (filter.ndim - 1))
    fixed = {3: np.where(mask, zero, filter), 4: np.where(scale == 0, np.float32(1), scale)}
    if bias is not None:
        fixed[8] = np.where(dead, np.int32(0), bias)
    for index, array in fixed.items():
        names[index] = graph.unused_name(f"{names[index]}@{node.outputs[0]}")
        constants[names[index]] = array
    return node.replace(inputs=tuple(names))


def _fits(parameter: np.ndarray | None, filter: np.ndarray) -> bool:
    """True for one number, or one for each output channel."""
    return parameter is None or (filter.ndim > 0 and parameter.size in (1, filter.shape[0]))
