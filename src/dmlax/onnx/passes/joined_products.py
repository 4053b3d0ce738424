"""Joins the products of one dynamically quantized matrix, as queries, keys and values are made."""

from collections.abc import Sequence

import numpy as np

from dmlax.onnx.graph import MICROSOFT, Graph, Node

_A, _B, _A_SCALE, _B_SCALE, _A_ZERO_POINT, _B_ZERO_POINT, _BIAS = range(7)


def join_products(graph: Graph) -> Graph:
    """Replaces products of one left matrix by a product with their right matrices side by side."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in graph.nodes:
        if (node.op, node.domain) == ("MatMulIntegerToFloat", MICROSOFT) and _has_constants(
            graph, node
        ):
            weight = graph.constants[node.inputs[_B]]
            left = [node.inputs[place] for place in (_A, _A_SCALE, _A_ZERO_POINT)]
            groups.setdefault((*left, str(weight.shape[0]), weight.dtype.name), []).append(node)
    joined = {group[0]: _join(graph, group) for group in groups.values() if len(group) > 1}
    gone = {node for group in groups.values() for node in group[1:]}
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node in joined:
            pair, added = joined[node]
            nodes += pair
            constants.update(added)
        elif node not in gone:
            nodes.append(node)
    return graph.replace(nodes=tuple(nodes), constants=constants).prune()


def _has_constants(graph: Graph, node: Node) -> bool:
    """True if all operands but the left matrix's are constants."""
    places = (_B, _B_SCALE, _B_ZERO_POINT, _BIAS)
    names = [node.inputs[place] for place in places if place < len(node.inputs)]
    return all(name in graph.constants for name in names if name)


def _join(graph: Graph, group: Sequence[Node]) -> tuple[list[Node], dict[str, np.ndarray]]:
    """The joined product and the split of its columns, and their constants."""
    first = group[0]
    weights = [graph.constants[node.inputs[_B]] for node in group]
    widths = [weight.shape[1] for weight in weights]
    named = {
        _B: np.concatenate(weights, axis=1),
        _B_SCALE: _columns(graph, group, _B_SCALE, widths, np.float32(1)),
        _B_ZERO_POINT: _columns(graph, group, _B_ZERO_POINT, widths, weights[0].dtype.type(0)),
        _BIAS: _columns(graph, group, _BIAS, widths, np.float32(-0.0)),  # which changes no sum
    }
    (output,) = first.outputs
    names = {place: graph.unused_name(f"{output}@joined{place}") for place in named}
    constants = {names[place]: array for place, array in named.items() if array is not None}
    inputs = [first.inputs[_A], names[_B], first.inputs[_A_SCALE], names[_B_SCALE]]
    inputs += [first.inputs[_A_ZERO_POINT]]
    inputs += [names[each] if named[each] is not None else "" for each in (_B_ZERO_POINT, _BIAS)]
    whole, lengths = (graph.unused_name(f"{output}@{what}") for what in ("joined", "lengths"))
    constants[lengths] = np.array(widths, np.int64)
    product = first.replace(
        inputs=tuple(inputs),
        outputs=(whole,),
        attributes={"parts": tuple(node.inputs[_B] for node in group)},
    )
    split = Node(
        name=f"{first.name}@split",
        op="Split",
        domain="",
        version=13,
        inputs=(whole, lengths),
        outputs=tuple(node.outputs[0] for node in group),
        attributes={"axis": -1},
    )
    return [product, split], constants


def _columns(
    graph: Graph, group: Sequence[Node], place: int, widths: Sequence[int], absent: np.generic
) -> np.ndarray | None:
    """A parameter of every column, None if no product has it."""
    names = [node.inputs[place] if place < len(node.inputs) else "" for node in group]
    if not any(names):
        return None
    values = [graph.constants[name] if name else np.asarray(absent) for name in names]
    if place == _B_ZERO_POINT and not any(value.any() for value in values):
        return None
    spread = [
        np.broadcast_to(x.reshape(-1), (width,)) for x, width in zip(values, widths, strict=True)
    ]
    return np.concatenate(spread)
