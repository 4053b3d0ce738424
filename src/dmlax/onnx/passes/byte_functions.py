"""Fuses element-wise functions of one 8-bit tensor into a lookup: a result is 1 of 256."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node

Avals = Mapping[str, Aval]
_LOOKUPS = {("QLinearLeakyRelu", MICROSOFT), ("QLinearSigmoid", MICROSOFT)}
_ELEMENT_WISE = _LOOKUPS | {  # on the host their float32 has ONNX Runtime's bits
    *((op, "") for op in ("Add", "DequantizeLinear", "Div", "Erf", "Mul", "QuantizeLinear", "Sub")),
    *((op, MICROSOFT) for op in ("QLinearAdd", "QLinearMul")),
}


class _Chain(NamedTuple):
    """The nodes that compute a tensor of one source, in their order."""

    source: str
    nodes: tuple[Node, ...]


def fuse_byte_functions(graph: Graph, avals: Avals) -> Graph:
    """Replaces each node with an 8-bit output that is a function of one 8-bit tensor.

    Args:
      graph: tensors that it gives are computed, too.
      avals: of every tensor.
    """
    chains: dict[str, _Chain] = {}
    nodes = []
    for node in graph.nodes:
        chain = _chain(graph, avals, chains, node)
        if chain is not None:
            chains[node.outputs[0]] = chain
            if _is_byte(avals.get(node.outputs[0])) and not _is_lookup(chain):
                node = _fuse(graph, node, chain)
        nodes.append(node)
    return _look_up_first(graph.replace(nodes=tuple(nodes)).prune())


def _look_up_first(graph: Graph) -> Graph:
    """Looks up before a transposition, so that what reads it may undo it."""
    producers = graph.single_use_producers()
    nodes: list[Node] = []
    for node in graph.nodes:
        before = producers.get(node.inputs[0]) if node.op == "ByteFunction" else None
        if before is not None and before.op == "Transpose" and not before.domain:
            (output,) = node.outputs
            found = graph.unused_name(f"{output}@before")
            inputs = (before.inputs[0], *node.inputs[1:])
            nodes.append(node.replace(inputs=inputs, outputs=(found,)))
            node = before.replace(inputs=(found,), outputs=(output,))
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes)).prune()


def _chain(graph: Graph, avals: Avals, chains: Mapping[str, _Chain], node: Node) -> _Chain | None:
    """The chain that ends with a node, or None."""
    if (node.op, node.domain) not in _ELEMENT_WISE or len(node.outputs) != 1:
        return None
    given = [name for name in node.inputs if name]
    computed = [name for name in given if name not in graph.constants]
    if any(graph.constants[name].size != 1 for name in given if name not in computed):
        return None
    before = [chains.get(name, _Chain(name, ())) for name in computed]
    sources = {chain.source for chain in before}
    if len(sources) != 1:
        return None
    (source,) = sources
    x, y = avals.get(source), avals.get(node.outputs[0])
    if x is None or y is None or not _is_byte(x) or x.shape != y.shape or not _has_two(x):
        return None
    nodes = {each.outputs[0]: each for chain in before for each in chain.nodes}
    return _Chain(source, (*nodes.values(), node))


def _is_byte(aval: Aval | None) -> bool:
    return aval is not None and aval.dtype in (np.int8, np.uint8)


def _has_two(aval: Aval) -> bool:
    """True for two elements or more: ONNX Runtime swaps the operands of sums of one and more."""
    return any(isinstance(size, int) and size > 1 for size in aval.shape)


def _is_lookup(chain: _Chain) -> bool:
    """True for a node that is computed as a lookup alone."""
    return len(chain.nodes) == 1 and (chain.nodes[0].op, chain.nodes[0].domain) in _LOOKUPS


def _fuse(graph: Graph, node: Node, chain: _Chain) -> Node:
    """The function with its nodes, and the names of its operands, the source first."""
    used = dict.fromkeys(name for each in chain.nodes for name in each.inputs)
    names = (chain.source, *(name for name in used if name in graph.constants))
    attributes = {"nodes": chain.nodes, "names": names}
    return node.replace(
        op="ByteFunction", domain=OWN, version=1, inputs=names, attributes=attributes
    )
