"""Moves the elements of constants, and scales bytes, once and not in every call."""

import numpy as np

from dmlax.onnx import budget
from dmlax.onnx.evaluate import Options, call
from dmlax.onnx.graph import Graph
from dmlax.onnx.passes.cast_weights import casts_bytes

_MOVES = {"Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
_MOVES |= {"Transpose", "Unsqueeze"}


def fold_constants(graph: Graph) -> Graph:
    """Computes moves whose operands are all constants, and the floats of scaled bytes."""
    constants, nodes = dict(graph.constants), []
    casts: set[str] = set()  # of bytes
    for node in graph.nodes:
        operands = [constants.get(name) if name else None for name in node.inputs]
        known = all(
            operand is not None or not name
            for operand, name in zip(operands, node.inputs, strict=True)
        )
        is_cast = known and casts_bytes(constants, node)
        is_scaled = node.op == "Mul" and not casts.isdisjoint(node.inputs)
        is_folded = node.op in _MOVES or is_cast or is_scaled
        if node.domain or not is_folded or not known:
            nodes.append(node)
            continue
        if is_cast:
            casts.update(node.outputs)
        try:
            results = call(node, operands, Options("exact"))
        except Exception:  # it is reported when the whole graph is checked
            nodes.append(node)
            continue
        named = zip(node.outputs, map(np.asarray, results), strict=False)
        constants.update((name, array) for name, array in named if name)
    folded = graph.replace(nodes=tuple(nodes), constants=constants).prune()
    grown = sum(each.nbytes for each in folded.constants.values())
    grown -= sum(each.nbytes for each in graph.constants.values())
    try:
        budget.spend(max(grown, 0))  # views of constants become params of their own
    except budget.OverBudget:
        return graph
    return folded
