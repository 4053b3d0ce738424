"""Weights that a file holds as bytes, and casts and scales in every call."""

from collections.abc import Mapping

import numpy as np

from dmlax.onnx.graph import Graph, Node


def gather_bytes(graph: Graph) -> Graph:
    """Gathers rows of a table of bytes before they are cast and scaled."""
    producers, nodes = graph.producers(), []
    for node in graph.nodes:
        scaled = producers.get(node.inputs[0]) if _takes_rows(node) else None
        operands = None if scaled is None else _cast_and_scale(graph, producers, scaled)
        if scaled is None or operands is None:
            nodes.append(node)
            continue
        (cast, scale), (output,) = operands, node.outputs
        rows, floats, scales = (
            graph.unused_name(f"{output}@{part}") for part in ("bytes", "floats", "scales")
        )
        nodes.append(node.replace(inputs=(cast.inputs[0], node.inputs[1]), outputs=(rows,)))
        nodes.append(cast.replace(name=f"cast {output}", inputs=(rows,), outputs=(floats,)))
        if graph.constants[scale].ndim:
            nodes.append(node.replace(inputs=(scale, node.inputs[1]), outputs=(scales,)))
            scale = scales
        names = {"name": f"scale {output}", "inputs": (floats, scale), "outputs": (output,)}
        nodes.append(scaled.replace(**names))
    return graph.replace(nodes=tuple(nodes))


def _takes_rows(node: Node) -> bool:
    return node.op == "Gather" and not node.domain and node.attributes.get("axis", 0) == 0


def _cast_and_scale(
    graph: Graph, producers: Mapping[str, Node], product: Node
) -> tuple[Node, str] | None:
    """The cast of a matrix of bytes, and the name of its scale: one number, or one of each row."""
    if product.op != "Mul" or product.domain:
        return None
    for name, scale in (product.inputs, product.inputs[::-1]):
        cast, factors = producers.get(name), graph.constants.get(scale)
        if cast is None or factors is None or not casts_bytes(graph.constants, cast):
            continue
        shape = graph.constants[cast.inputs[0]].shape
        if len(shape) == 2 and factors.shape in ((), (shape[0], 1)):
            return cast, scale
    return None


def casts_bytes(constants: Mapping[str, np.ndarray], node: Node) -> bool:
    """True for a Cast to float32 of constant bytes."""
    if node.op != "Cast" or node.domain or node.attributes.get("to") != 1:
        return False
    known = constants.get(node.inputs[0])
    return known is not None and known.dtype.name in ("int8", "uint8") and known.size > 1
