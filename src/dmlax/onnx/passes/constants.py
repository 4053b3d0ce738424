"""Computes with constants once, and not in every call."""

from collections.abc import Iterable

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx import budget
from dmlax.onnx.evaluate import Options, Runner, call
from dmlax.onnx.graph import MICROSOFT, Constants, Graph, Node
from dmlax.onnx.operators.values import is_known
from dmlax.onnx.passes.patterns import Constant, Match, Op, replaces, swap
from dmlax.onnx.passes.qdq import is_quantize

_MOVES = {"Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
_MOVES |= {"Transpose", "Unsqueeze"}
_MOST = 1 << 24  # bytes of a tensor that takes more than four times those of its operands


def fold_constants(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Computes the nodes of constants, except dequantizations and what takes much memory."""
    constants, runner = dict(graph.constants), Runner(Options(arithmetic))
    left = budget.FREE + _bytes(constants)  # of all results, most of which are soon dropped
    for node in graph.nodes:
        names = {*filter(None, node.inputs)}
        if not names <= constants.keys() or not _is_foldable(graph, node):
            continue
        operands = [constants.get(name) for name in node.inputs]
        held = [x for x in operands if x is not None]
        most = left if node.op in _MOVES else max(_MOST, 4 * sum(x.nbytes for x in held))
        if results := _compute(node, operands, runner, min(most, left)):
            constants |= results
            new = (x for x in results.values() if not _is_view(x, held))
            left -= sum(x.nbytes for x in new)
    nodes = (node for node in graph.nodes if not {*filter(None, node.outputs)} <= constants.keys())
    folded = graph.replace(nodes=tuple(nodes), constants=constants).prune()
    growth = _bytes(folded.constants) - _bytes(graph.constants)
    try:
        budget.spend(max(growth, 0))  # views of constants become separate params
    except budget.OverBudget:
        return graph
    return folded


def _bytes(constants: Constants) -> int:
    return sum(array.nbytes for array in constants.values())


def _is_view(array: np.ndarray, others: Iterable[np.ndarray]) -> bool:
    return any(np.may_share_memory(array, other) for other in others)


def _compute(
    node: Node, operands: list[np.ndarray | None], runner: Runner, most: int
) -> dict[str, np.ndarray] | None:
    """The outputs of a node of constants; the check of the whole graph reports its errors."""
    try:
        with budget.limit(0, free=most):
            outputs = call(node, operands, runner, {})
    except Exception:
        return None
    if len(outputs) < len(node.outputs) or not all(map(is_known, outputs)):
        return None
    return {name: x for name, x in zip(node.outputs, outputs, strict=False) if name}


def _is_foldable(graph: Graph, node: Node) -> bool:
    """True for a node that may be computed before any other; packed weights stay as they are."""
    is_onnx = not node.domain and not node.graphs and node.op != "DequantizeLinear"
    return (is_onnx or is_quantize(node)) and not _is_tied(graph, node)


def _is_tied(graph: Graph, node: Node) -> bool:
    """True for a Reshape of the packed weights of a product: embeddings would be held twice."""
    readers = graph.consumers.get(node.inputs[0], []) if node.is_a("Reshape") else []
    return any(reader.is_a("MatMulNBits", MICROSOFT) for reader in readers)


def _casts_bytes(constants: Constants, node: Node) -> bool:
    """True for a Cast to float32 of constant bytes."""
    if not node.is_a("Cast") or node.attributes.get("to") != 1:
        return False
    array = constants.get(node.inputs[0])
    return array is not None and array.dtype.name in ("int8", "uint8") and array.size > 1


_CAST = Op("Cast", name="floats", fits=lambda graph, node: _casts_bytes(graph.constants, node))
_TABLE = Op("Mul", _CAST, Constant("scale"), name="table")


@replaces(Op("Gather", _TABLE, fits=lambda graph, node: node.attributes.get("axis", 0) == 0))
def gather_bytes(graph: Graph, gather: Node, match: Match) -> list[Node] | None:
    """Gathers rows of a table of bytes before they are cast and scaled."""
    cast, product = (graph.producers[match[name]] for name in ("floats", "table"))
    scale, shape = match["scale"], graph.constants[cast.inputs[0]].shape
    if len(shape) != 2 or graph.constants[scale].shape not in ((), (shape[0], 1)):
        return None
    index, (output,) = gather.inputs[1], gather.outputs
    floats, scales = (graph.unused_name(f"{output}@{part}") for part in ("floats", "scales"))
    cast = cast.replace(name=f"cast {output}")
    nodes = swap(graph, cast, gather.replace(outputs=(floats,)), "bytes")
    if graph.constants[scale].ndim:
        nodes.append(gather.replace(inputs=(scale, index), outputs=(scales,)))
        scale = scales
    names = {"name": f"scale {output}", "inputs": (floats, scale), "outputs": (output,)}
    return [*nodes, product.replace(**names)]
