"""Drops a Relu or a Clip before a quantization whose range clamps as much."""

import numpy as np

from dmlax.onnx.graph import Graph, Node


def drop_clamps(graph: Graph) -> Graph:
    """Has a quantization read what a clamp reads, where every value clamps to the same byte."""
    producers, consumers = graph.producers(), graph.consumers()
    nodes = []
    for node in graph.nodes:
        clamp = producers.get(node.inputs[0]) if node.op == "QuantizeLinear" else None
        while clamp is not None and _is_implied(graph, clamp, node, consumers):
            node = node.replace(inputs=(clamp.inputs[0], *node.inputs[1:]))
            clamp = producers.get(node.inputs[0])
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _is_implied(
    graph: Graph, clamp: Node, quantize: Node, consumers: dict[str, list[Node]]
) -> bool:
    """True where the quantization alone clamps to the range, and nothing else reads the clamp."""
    if clamp.op not in ("Relu", "Clip") or len(consumers[clamp.outputs[0]]) != 1:
        return False
    scale, zero_point = _parameters(graph, quantize)
    bounds = _bounds(graph, clamp)
    if scale is None or zero_point is None or bounds is None:
        return False
    if scale.dtype.kind != "f" or zero_point.dtype.kind not in "iu":
        return False
    limits = np.iinfo(zero_point.dtype)
    step, zero = float(scale), int(zero_point)
    low, high = (step * (end - zero) for end in (limits.min, limits.max))
    return bounds[0] <= low and high <= bounds[1]


def _parameters(graph: Graph, node: Node) -> tuple[np.ndarray | None, np.ndarray | None]:
    scale = graph.constants.get(node.inputs[1])
    zero = np.uint8(0) if len(node.inputs) < 3 else graph.constants.get(node.inputs[2])
    found = [each if each is None or each.size != 1 else each.reshape(()) for each in (scale, zero)]
    return tuple(each if each is not None and each.ndim == 0 else None for each in found)  # type: ignore[return-value]


def _bounds(graph: Graph, clamp: Node) -> tuple[float, float] | None:
    """The range of a clamp, None where it is computed."""
    if clamp.op == "Relu":
        return 0.0, np.inf
    ends: list[float] = []
    for index, (attribute, default) in enumerate((("min", -np.inf), ("max", np.inf)), 1):
        name = clamp.inputs[index] if index < len(clamp.inputs) else ""
        array = graph.constants.get(name)
        if name and (array is None or array.size != 1 or array.dtype.kind not in "fiu"):
            return None
        ends.append(
            float(clamp.attributes.get(attribute, default)) if array is None else float(array)
        )
    return ends[0], ends[1]
