"""Moves the elements of constants once, and not in every call."""

import numpy as np

from dmlax.onnx import budget
from dmlax.onnx.evaluate import Options, call
from dmlax.onnx.graph import Graph

_MOVES = {"Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
_MOVES |= {"Transpose", "Unsqueeze"}


def fold_constants(graph: Graph) -> Graph:
    """Computes moves whose operands are all constants."""
    constants, nodes = dict(graph.constants), []
    for node in graph.nodes:
        operands = [constants.get(name) if name else None for name in node.inputs]
        known = all(
            operand is not None or not name
            for operand, name in zip(operands, node.inputs, strict=True)
        )
        if node.domain or node.op not in _MOVES or not known:
            nodes.append(node)
            continue
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
