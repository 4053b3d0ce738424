"""Computes with constants once, and not in every call."""

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx import budget
from dmlax.onnx.evaluate import Options, Runner, call
from dmlax.onnx.graph import MICROSOFT, Constants, Graph, Node
from dmlax.onnx.passes.patterns import Constant, Match, Op, replaces, swap
from dmlax.onnx.passes.qdq import is_quantize

_MOVES = {"Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
_MOVES |= {"Transpose", "Unsqueeze"}


def fold_constants(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Computes moves and quantizations of constants, and the floats of scaled bytes."""
    constants, nodes, runner = dict(graph.constants), [], Runner(Options(arithmetic))
    casts: set[str] = set()  # floats of bytes
    for node in graph.nodes:
        is_scale = node.op == "Mul" and not casts.isdisjoint(node.inputs)
        is_folded = node.op in _MOVES or is_scale or _casts_bytes(constants, node)
        is_folded = (is_folded and not node.domain) or is_quantize(node)
        is_folded = is_folded and not _is_tied(graph, node)
        results = _compute(node, constants, runner) if is_folded else None
        if node.op == "Cast" and is_folded:
            casts.update(node.outputs)
        if results is None:
            nodes.append(node)
        else:
            constants |= results
    folded = graph.replace(nodes=tuple(nodes), constants=constants).prune()
    growth = _bytes(folded.constants) - _bytes(graph.constants)
    try:
        budget.spend(max(growth, 0))  # views of constants become separate params
    except budget.OverBudget:
        return graph
    return folded


def _bytes(constants: Constants) -> int:
    return sum(array.nbytes for array in constants.values())


def _compute(node: Node, constants: Constants, runner: Runner) -> dict[str, np.ndarray] | None:
    """The outputs of a node of constants; the check of the whole graph reports its errors."""
    if any(name and name not in constants for name in node.inputs):
        return None
    try:
        results = call(node, [constants.get(name) for name in node.inputs], runner, {})
    except Exception:
        return None
    outputs = zip(node.outputs, map(np.asarray, results), strict=False)
    return {name: array for name, array in outputs if name}


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
