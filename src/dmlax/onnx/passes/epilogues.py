"""Fuses a residual or a byte function into the convolution or the product that it follows."""

from collections.abc import Iterator

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.patterns import Match, Op, Pattern, SingleUse, replaces

_CONVOLUTION_INPUTS = 8  # a QLinearConv without its bias
_GEMM_INPUTS = 9  # a QGemm, with or without its bias
_CONVOLUTION = SingleUse("QLinearConv", domain=None, name="result")
GEMM = SingleUse(
    "QGemm",
    domain=MICROSOFT,
    name="result",
    fits=lambda graph, node: len(node.inputs) == _GEMM_INPUTS,
)


class _Reshaped(Pattern):
    """A QGemm's output, reshaped any number of times or never."""

    def matches(self, graph: Graph, tensor: str, match: Match) -> Iterator[Match]:
        yield from GEMM.matches(graph, tensor, match)
        yield from SingleUse("Reshape", self).matches(graph, tensor, match)


def _is_sum(graph: Graph, node: Node) -> bool:
    return len(node.inputs) == 8 and all(node.inputs)


def _sums(result: Pattern) -> tuple[Op, Op]:
    """A QLinearAdd of a result and a residual, in both orders."""
    first = Op("QLinearAdd", result, "", "", "residual", domain=MICROSOFT, fits=_is_sum)
    return first, Op("QLinearAdd", "residual", "", "", result, domain=MICROSOFT, fits=_is_sum)


@replaces(*_sums(_CONVOLUTION))
def fuse_adds(graph: Graph, add: Node, match: Match, avals: Avals) -> Node | None:
    """Replaces the QLinearAdd of a convolution's result by a convolution with an addend."""
    return _add(graph, add, match, avals, "QLinearConv", _CONVOLUTION_INPUTS)


@replaces(*_sums(_Reshaped()))
def fuse_gemm_adds(graph: Graph, add: Node, match: Match, avals: Avals) -> Node | None:
    """Replaces the QLinearAdd of a QGemm's output, reshaped or not, by a QGemm with an addend."""
    return _add(graph, add, match, avals, "QGemmAdd", _GEMM_INPUTS)


def _add(graph: Graph, add: Node, match: Match, avals: Avals, op: str, end: int) -> Node | None:
    """An operator with an addend in front of input `end`, unless the sum broadcasts."""
    node, residual = graph.producers[match["result"]], add.inputs.index(match["residual"])
    result = 3 - residual
    a, b = avals.get(add.inputs[0]), avals.get(add.inputs[3])
    if a is None or b is None or a.shape != b.shape:
        return None
    inputs, parameters = node.inputs, add.inputs[result + 1 : result + 3]
    if not graph.are_equal(inputs[end - 2 : end], parameters):
        return None
    addend = (*add.inputs[residual : residual + 3], *add.inputs[6:])
    attributes = {**node.attributes, "addend_first": int(residual == 0)}
    return add.become(op, OWN, (*inputs[:end], *addend, *inputs[end:]), attributes)


@replaces(Op("ByteFunction", GEMM, domain=OWN))
def fuse_gemm_functions(graph: Graph, function: Node, match: Match, avals: Avals) -> Node:
    """Replaces the ByteFunction of a QGemm's output by a QGemm that looks it up."""
    gemm = graph.producers[match["result"]]
    inputs = (*gemm.inputs, *function.inputs[1:])
    attributes = {**gemm.attributes, **function.attributes}
    return gemm.become("QGemm", OWN, inputs, attributes).replace(outputs=function.outputs)
