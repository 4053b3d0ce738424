"""Fuses element-wise functions of one 8-bit tensor into a lookup: a result is 1 of 256."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dmlax._core.arguments import Aval
from dmlax.onnx.check import Avals
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.patterns import Match, Op, SingleUse, replaces, swap

_LOOKUPS = {("QLinearLeakyRelu", MICROSOFT), ("QLinearSigmoid", MICROSOFT)}
_ELEMENT_WISE = _LOOKUPS | {  # the host computes them in ONNX Runtime's float32 bits
    *((op, "") for op in ("Add", "Clip", "DequantizeLinear", "Div", "Erf", "HardSigmoid")),
    *((op, "") for op in ("HardSwish", "Mul", "QuantizeLinear", "Relu", "Sub")),
    *((op, MICROSOFT) for op in ("QLinearAdd", "QLinearMul")),
}


class _Chain(NamedTuple):
    """The nodes that compute a tensor of one source, in their order."""

    source: str
    nodes: tuple[Node, ...]


def fuse_byte_functions(graph: Graph, avals: Avals) -> Graph:
    """Replaces nodes whose output is 8-bit, or an average, and a function of one 8-bit tensor."""
    chains: dict[str, _Chain] = {}

    def fuse(node: Node) -> Node | None:
        chain = _chain(graph, avals, chains, node)
        if node.is_a("GlobalAveragePool") and _has_one_value(avals, chains.get(node.inputs[0])):
            return _fuse(graph, node, chains[node.inputs[0]], "ByteAverage")
        if chain is None:
            return None
        chains[node.outputs[0]] = chain
        is_fused = _is_byte(avals.get(node.outputs[0])) and not _is_lookup(chain)
        return _fuse(graph, node, chain, "ByteFunction") if is_fused else None

    return _look_up_first(graph.rewrite(fuse))


@replaces(Op("ByteFunction", SingleUse("Transpose", "x", name="transposed"), domain=OWN))
def _look_up_first(graph: Graph, function: Node, match: Match) -> list[Node]:
    """Looks up before a transposition, so that what reads it may undo it."""
    return swap(graph, graph.producers[match["transposed"]], function, "before")


def _chain(graph: Graph, avals: Avals, chains: Mapping[str, _Chain], node: Node) -> _Chain | None:
    """The chain that ends with a node, or None."""
    if (node.op, node.domain) not in _ELEMENT_WISE or len(node.outputs) != 1:
        return None
    operands = [name for name in node.inputs if name]
    computed = [name for name in operands if name not in graph.constants]
    if any(graph.constants[name].size != 1 for name in operands if name not in computed):
        return None
    before = [chains.get(name, _Chain(name, ())) for name in computed]
    sources = {chain.source for chain in before}
    if len(sources) != 1:
        return None
    (source,) = sources
    x, y = avals.get(source), avals.get(node.outputs[0])
    if x is None or y is None or not _is_byte(x) or x.shape != y.shape or not _has_two(x):
        return None
    nodes = {inner.outputs[0]: inner for chain in before for inner in chain.nodes}
    return _Chain(source, (*nodes.values(), node))


def _is_byte(aval: Aval | None) -> bool:
    return aval is not None and aval.dtype in (np.int8, np.uint8)


def _has_two(aval: Aval) -> bool:
    """True for two elements or more: ONNX Runtime swaps the operands of sums of one and more."""
    return any(isinstance(size, int) and size > 1 for size in aval.shape)


def _has_one_value(avals: Avals, chain: _Chain | None) -> bool:
    """True for a chain to float32 whose table has the bits of its nodes in a program."""
    if chain is None or avals[chain.nodes[-1].outputs[0]].dtype != np.float32:
        return False
    return not any(node.is_a("Erf") for node in chain.nodes)


def _is_lookup(chain: _Chain) -> bool:
    """True for a node that is computed as a lookup alone."""
    return len(chain.nodes) == 1 and (chain.nodes[0].op, chain.nodes[0].domain) in _LOOKUPS


def _fuse(graph: Graph, node: Node, chain: _Chain, op: str) -> Node:
    """The function with its nodes, and the names of its operands, the source first."""
    read = dict.fromkeys(name for inner in chain.nodes for name in inner.inputs)
    names = (chain.source, *(name for name in read if name in graph.constants))
    return node.become(op, OWN, names, {"nodes": chain.nodes, "names": names})
