"""Drops outputs that nothing reads, and nodes that change nothing.

These are copies, and clamps that the next quantization implies.
"""

from collections.abc import Set

import numpy as np

from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.operators import find
from dmlax.onnx.passes.qdq import is_quantize, quantized_dtype


def drop_unread_outputs(graph: Graph) -> Graph:
    """Leaves out optional outputs that nothing reads, as a mask of a Dropout."""

    def drop(node: Node) -> Node:
        if node.is_a("Loop"):
            return _drop_scan_outputs(node, graph.read)
        row, outputs = find(node), list(node.outputs)
        if row is None or node.graphs or "output_count" in row.attributes:
            return node
        while outputs[1:] and outputs[-1] not in graph.read:
            outputs.pop()
        return node.replace(outputs=tuple(outputs))

    return graph.replace(nodes=tuple(map(drop, graph.nodes)))


def _drop_scan_outputs(node: Node, read: Set[str]) -> Node:
    """A Loop without the scan outputs that nothing reads: they may have no known length."""
    body, states = node.graphs["body"], len(node.operands) - 2
    kept = [i for i, name in enumerate(node.outputs) if i < states or name in read]
    if not kept or len(body.outputs) != len(node.outputs) + 1:
        return node
    body = body.replace(outputs=(body.outputs[0], *(body.outputs[i + 1] for i in kept))).prune()
    outputs = tuple(node.outputs[i] for i in kept)
    return node.with_graphs({"body": body}).replace(outputs=outputs)


def drop_identities(graph: Graph) -> Graph:
    """Has the readers of a copy read the copied tensor."""
    names: dict[str, str] = {}
    copies = {node.outputs[0]: node for node in graph.nodes if _is_copy(node)}
    for name, node in copies.items():
        names[name] = names.get(node.inputs[0], node.inputs[0])
    dropped = copies.keys() - {*graph.outputs}
    kept = [node for node in graph.nodes if node.outputs[0] not in dropped]
    return graph.replace(nodes=tuple(node.rename_inputs(names) for node in kept))


def _is_copy(node: Node) -> bool:
    """True for a copy; a Dropout with a training mode checks it when it is computed."""
    is_copy = node.op in ("Identity", "Dropout") and not node.domain
    return is_copy and not any(node.outputs[1:]) and not node.input(2)


def drop_clamps(graph: Graph) -> Graph:
    """Has a quantization read a clamp's input, if the clamp changes no integer."""

    def drop(node: Node) -> Node:
        clamp = graph.producers.get(node.inputs[0]) if is_quantize(node) else None
        while clamp is not None and _is_implied(graph, clamp, node):
            node = node.replace(inputs=(clamp.inputs[0], *node.inputs[1:]))
            clamp = graph.producers.get(node.inputs[0])
        return node

    return graph.rewrite(drop)


def _is_implied(graph: Graph, clamp: Node, quantize: Node) -> bool:
    """True if the quantization alone clamps to the range, and nothing else reads the clamp."""
    is_clamp = clamp.op in ("Relu", "Clip") and not clamp.domain
    if not is_clamp or len(graph.consumers[clamp.outputs[0]]) != 1:
        return False
    dtype, bounds = quantized_dtype(graph, quantize), _bounds(graph, clamp)
    is_integer = dtype is not None and dtype.kind in "iu"  # float8 is none
    if dtype is None or not is_integer or bounds is None or not graph.has_one_scale(quantize):
        return False
    scale, *zero_points = (graph.constants[name] for name in quantize.inputs[1:] if name)
    if scale.dtype.kind != "f" or any(array.dtype != dtype for array in zero_points):
        return False
    step, zero = float(scale.item()), int(zero_points[0].item()) if zero_points else 0
    low, high = (step * (int(end) - zero) for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    return step > 0 and bounds[0] <= low and high <= bounds[1]


def _bounds(graph: Graph, clamp: Node) -> tuple[float, float] | None:
    """The range of a clamp, None if it is computed."""
    if clamp.op == "Relu":
        return 0.0, np.inf
    low = _bound(graph, clamp.input(1), clamp.attributes.get("min", -np.inf))
    high = _bound(graph, clamp.input(2), clamp.attributes.get("max", np.inf))
    return None if low is None or high is None else (low, high)


def _bound(graph: Graph, name: str, default: float) -> float | None:
    """The value of a bound, None if it is computed."""
    array = graph.constants.get(name)
    if array is None:
        return None if name else float(default)
    return float(array.item()) if array.size == 1 and array.dtype.kind in "fiu" else None
