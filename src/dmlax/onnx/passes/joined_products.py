"""Joins the products of one dynamically quantized matrix, as queries, keys and values are made."""

from collections.abc import Sequence

import numpy as np

from dmlax.onnx.graph import MICROSOFT, Graph, Node

_A, _B, _A_SCALE, _B_SCALE, _A_ZERO_POINT, _B_ZERO_POINT, _BIAS = range(7)
_CONSTANTS = (_B, _B_SCALE, _B_ZERO_POINT, _BIAS)  # the constants of products that are joined


def join_products(graph: Graph) -> Graph:
    """Replaces products of one left matrix by a product with their right matrices side by side."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for node in graph.nodes:
        known = all(name in graph.constants for name in map(node.input, _CONSTANTS) if name)
        weight = graph.constants.get(node.input(_B))
        is_product = known and node.is_a("MatMulIntegerToFloat", MICROSOFT)
        if is_product and weight is not None and weight.ndim == 2:
            left = map(node.input, (_A, _A_SCALE, _A_ZERO_POINT))
            groups.setdefault((*left, str(weight.shape[0]), weight.dtype.name), []).append(node)
    constants = dict(graph.constants)
    joined: dict[Node, Sequence[Node]] = {}
    for first, *others in groups.values():
        if others:
            joined[first] = _join(graph, [first, *others], constants)
            joined.update((node, []) for node in others)
    return graph.replace(constants=constants).rewrite(joined.get)


def _join(
    graph: Graph, group: Sequence[Node], constants: dict[str, np.ndarray]
) -> tuple[Node, Node]:
    """The joined product and the split of its columns, whose constants are added."""
    first, (output,) = group[0], group[0].outputs
    weights = [graph.constants[node.inputs[_B]] for node in group]
    widths = [weight.shape[1] for weight in weights]
    zero = weights[0].dtype.type(0)
    arrays = {
        _B: np.concatenate(weights, axis=1),
        _B_SCALE: _columns(graph, group, _B_SCALE, widths, np.float32(1)),
        _B_ZERO_POINT: _columns(graph, group, _B_ZERO_POINT, widths, zero),
        _BIAS: _columns(graph, group, _BIAS, widths, np.float32(-0.0)),  # -0.0 changes no sum
    }
    inputs = [first.input(place) for place in range(_BIAS + 1)]
    for place, array in arrays.items():
        inputs[place] = ""
        if array is not None:
            inputs[place] = graph.unused_name(f"{output}@joined{place}")
            constants[inputs[place]] = array
    whole, lengths = (graph.unused_name(f"{output}@{what}") for what in ("joined", "lengths"))
    constants[lengths] = np.array(widths, np.int64)
    parts = tuple(node.inputs[_B] for node in group)
    product = first.replace(inputs=tuple(inputs), outputs=(whole,), attributes={"parts": parts})
    outputs = tuple(node.outputs[0] for node in group)
    name, axis = f"{first.name}@split", {"axis": -1}
    return product, Node(name, "Split", "", 13, (whole, lengths), outputs, axis)


def _columns(
    graph: Graph, group: Sequence[Node], place: int, widths: Sequence[int], absent: np.generic
) -> np.ndarray | None:
    """A parameter of every column, None if no product has it."""
    names = [node.input(place) for node in group]
    if not any(names):
        return None
    values = [graph.constants[name] if name else np.asarray(absent) for name in names]
    if place == _B_ZERO_POINT and not any(value.any() for value in values):
        return None
    pairs = zip(values, widths, strict=True)
    return np.concatenate([np.broadcast_to(x.reshape(-1), (width,)) for x, width in pairs])
