"""Drops a Relu or a Clip before a quantization whose range clamps as much."""

import numpy as np

from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.passes.qdq import is_quantize, quantized_dtype


def drop_clamps(graph: Graph) -> Graph:
    """Has a quantization read what a clamp reads, where every value clamps to the same integer."""
    producers, consumers = graph.producers(), graph.consumers()
    nodes = []
    for node in graph.nodes:
        clamp = producers.get(node.inputs[0]) if is_quantize(node) else None
        while clamp is not None and _is_implied(graph, clamp, node, consumers):
            node = node.replace(inputs=(clamp.inputs[0], *node.inputs[1:]))
            clamp = producers.get(node.inputs[0])
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _is_implied(
    graph: Graph, clamp: Node, quantize: Node, consumers: dict[str, list[Node]]
) -> bool:
    """True where the quantization alone clamps to the range, and nothing else reads the clamp."""
    if clamp.op not in ("Relu", "Clip") or clamp.domain or len(consumers[clamp.outputs[0]]) != 1:
        return False
    dtype, bounds = quantized_dtype(graph, quantize), _bounds(graph, clamp)
    if dtype is None or bounds is None or not graph.has_one_scale(quantize):
        return False
    if dtype.kind not in "iu":  # float8
        return False
    scale, *zero_points = (graph.constants[name] for name in quantize.inputs[1:] if name)
    if scale.dtype.kind != "f" or any(each.dtype != dtype for each in zero_points):
        return False
    step, zero = float(scale.item()), int(zero_points[0].item()) if zero_points else 0
    low, high = (step * (int(end) - zero) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    return step > 0 and bounds[0] <= low and high <= bounds[1]


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
        given = clamp.attributes.get(attribute, default) if array is None else array.item()
        ends.append(float(given))
    return ends[0], ends[1]
