"""Fuses the sum of a result and a residual into the convolution or the product that gives it."""

from collections.abc import Callable, Mapping, Sequence

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node

Avals = Mapping[str, Aval]
_TERMS = (0, 3)  # the places of a QLinearAdd's operands, each before its scale and zero point
_BIAS = 8  # the place of a QLinearConv's
_GEMM_INPUTS = 9  # with its bias or without


def fuse_adds(graph: Graph, avals: Avals) -> Graph:
    """Replaces each QLinearAdd of a convolution's result by a convolution with an addend.

    Args:
      graph: a result that it gives is not fused.
      avals: of every tensor; a sum that broadcasts is not fused.
    """
    producers = graph.single_use_producers()

    def fuse(add: Node, place: int) -> Node | None:
        convolution = producers.get(add.inputs[place])
        if convolution is None or convolution.op != "QLinearConv":
            return None
        fits = _fits(graph, avals, convolution.inputs[6:_BIAS], add, place)
        return _fuse(convolution, add, place) if fits else None

    return _replace_adds(graph, fuse)


def _replace_adds(graph: Graph, fuse: Callable[[Node, int], Node | None]) -> Graph:
    """Replaces each QLinearAdd by what is fused of it and the node before one of its places."""
    nodes = []
    for node in graph.nodes:
        places = _TERMS if (node.op, node.domain) == ("QLinearAdd", MICROSOFT) else ()
        found = (fuse(node, place) for place in places)
        nodes.append(next((each for each in found if each is not None), node))
    return graph.replace(nodes=tuple(nodes)).prune()


def _fits(graph: Graph, avals: Avals, parameters: Sequence[str], add: Node, place: int) -> bool:
    """True for a result of one shape with the residual, added with the parameters that it has."""
    if len(add.inputs) != 8 or not all(add.inputs):
        return False
    a, b = (avals.get(add.inputs[each]) for each in _TERMS)
    pairs = zip(parameters, add.inputs[place + 1 : place + 3], strict=True)
    same = all(one and graph.are_equal(one, other) for one, other in pairs)
    return a is not None and b is not None and a.shape == b.shape and same


def _fuse(convolution: Node, add: Node, place: int) -> Node:
    """A convolution that takes the residual, and the parameters of the sum, before its bias."""
    residual = _TERMS[place == 0]
    addend = (*add.inputs[residual : residual + 3], *add.inputs[6:8])
    inputs = (*convolution.inputs[:_BIAS], *addend, *convolution.inputs[_BIAS:])
    attributes = {**convolution.attributes, "addend_first": int(residual == 0)}
    return add.replace(
        op="QLinearConv", domain=OWN, version=1, inputs=inputs, attributes=attributes
    )


def fuse_gemm_adds(graph: Graph, avals: Avals) -> Graph:
    """Replaces each QLinearAdd of a QGemm's output, reshaped or not, by a QGemm with an addend.

    Args:
      graph: a result that it gives is not fused.
      avals: of every tensor; a sum that broadcasts is not fused.
    """
    producers = graph.single_use_producers()

    def fuse(add: Node, place: int) -> Node | None:
        gemm = _gemm_of(producers, add.inputs[place])
        fits = gemm is not None and _fits(graph, avals, gemm.inputs[7:], add, place)
        return _fuse_gemm(gemm, add, place) if gemm is not None and fits else None

    return _replace_adds(graph, fuse)


def _gemm_of(producers: Mapping[str, Node], name: str) -> Node | None:
    """The QGemm whose output a tensor is, reshaped or not, where nothing else reads it."""
    node = producers.get(name)
    if node is None:
        return None
    if (node.op, node.domain) == ("Reshape", ""):
        return _gemm_of(producers, node.inputs[0])
    is_gemm = (node.op, node.domain) == ("QGemm", MICROSOFT)
    return node if is_gemm and len(node.inputs) == _GEMM_INPUTS else None


def _fuse_gemm(gemm: Node, add: Node, place: int) -> Node:
    """A QGemm that takes the residual and the parameters of the sum."""
    residual = _TERMS[place == 0]
    inputs = (*gemm.inputs, *add.inputs[residual : residual + 3], *add.inputs[6:8])
    attributes = {**gemm.attributes, "addend_first": int(residual == 0)}
    return add.replace(op="QGemmAdd", domain=OWN, version=1, inputs=inputs, attributes=attributes)
