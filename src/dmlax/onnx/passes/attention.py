"""Fuses the two products of an attention, the softmax between them, and the QGemm before them."""

from collections.abc import Callable

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.operators.fused import Function
from dmlax.onnx.passes.epilogues import GEMM
from dmlax.onnx.passes.patterns import Constant, Match, Op, Pattern, SingleUse, replaces


def _permutes(*perm: int) -> Callable[[Graph, Node], bool]:
    return lambda graph, node: node.attributes.get("perm") == perm


_SCORES = SingleUse("QLinearMatMul", name="scores")
_WEIGHTS = SingleUse("QLinearSoftmax", _SCORES, domain=MICROSOFT, name="weights")


def fuse_attention(graph: Graph, avals: Avals) -> Graph:
    """Replaces a product, the softmax of its rows, and the product of that by one node."""
    return _store_heads_last(_fuse_products(graph, avals))


@replaces(Op("QLinearMatMul", _WEIGHTS))
def _fuse_products(graph: Graph, values: Node, match: Match, avals: Avals) -> Node | None:
    scores, softmax = (graph.producers[match[name]] for name in ("scores", "weights"))
    written = (*scores.inputs[6:8], *softmax.inputs[3:5])
    read = (*softmax.inputs[1:3], *values.inputs[1:3])
    if not (_is_of_rows(softmax, avals) and graph.are_equal(written, read)):
        return None
    return values.become("QLinearAttention", OWN, (*scores.inputs, *values.inputs[1:]))


_STORED = SingleUse("QLinearAttention", domain=OWN, name="attention")


@replaces(Op("Transpose", _STORED, fits=_permutes(0, 2, 1, 3)))
def _store_heads_last(graph: Graph, transpose: Node, match: Match) -> Node:
    """Has an attention store the heads of a row side by side, as a transpose behind it does."""
    attention = graph.producers[match["attention"]]
    return attention.replace(outputs=transpose.outputs, attributes={"heads_last": 1})


def _is_of_rows(softmax: Node, avals: Avals) -> bool:
    """True for a softmax that keeps the dtype, along the last axis, whose size is known."""
    aval, output = avals.get(softmax.inputs[0]), avals.get(softmax.outputs[0])
    if len(softmax.inputs) < 5 or aval is None or output is None or aval.dtype != output.dtype:
        return False
    default = -1 if softmax.attributes.get("opset", 13) >= 13 else 1
    axis = softmax.attributes.get("axis", default)
    is_last = (default if axis is None else axis) in (-1, len(aval.shape) - 1)
    return is_last and isinstance(aval.shape[-1], int)


_SHAPE = Constant("shape", lambda array: array.size == 5)  # images, rows, 3, heads, columns
_PARTS = Op(
    "Transpose", SingleUse("Reshape", GEMM, _SHAPE), name="parts", fits=_permutes(2, 0, 3, 1, 4)
)


def _part(name: str, number: int) -> Pattern:
    """Queries, keys or values: a part of a tensor of all three, or a function of its bytes."""
    gather = SingleUse(
        "Gather",
        _PARTS,
        Constant(fits=lambda array: not array.shape and array == number),
        name=name,
        fits=lambda graph, node: not node.attributes.get("axis", 0),
    )
    return SingleUse("ByteFunction", gather, domain=OWN, name=f"{name} function") | gather


_KEYS = SingleUse("Transpose", _part("keys", 1), fits=_permutes(0, 1, 3, 2))
_INPUTS = {0: _part("queries", 0), 3: _KEYS, 10: _part("values", 2)}


@replaces(Op("QLinearAttention", *(_INPUTS.get(i, "") for i in range(11)), domain=OWN))
def fuse_self_attention(graph: Graph, attention: Node, match: Match, avals: Avals) -> Node | None:
    """Replaces an attention, the split of a QGemm's output before it, and the QGemm by one node."""
    gemm, parts, aval = graph.producers[match["result"]], match["parts"], avals.get(match["result"])
    images, rows, three, heads, columns = map(int, graph.constants[match["shape"]])
    is_split = images == -1 and three == 3 and min(rows, heads, columns) > 0
    if aval is None or not is_split or aval.shape[-1] != 3 * heads * columns:
        return None
    if len(graph.consumers[parts]) != 3 or parts in graph.outputs:
        return None
    functions = tuple(_function(graph, match, name) for name in ("queries", "keys", "values"))
    parameters = [name for i, name in enumerate(attention.inputs) if i not in _INPUTS]
    names = tuple(dict.fromkeys(name for x in functions for name in x.names[1:]))
    attributes = {**gemm.attributes, **attention.attributes}
    attributes |= {"functions": functions, "names": names, "sizes": (rows, heads, columns)}
    inputs = (*gemm.inputs, *parameters, *names)
    return attention.become("QLinearSelfAttention", OWN, inputs, attributes)


def _function(graph: Graph, match: Match, name: str) -> Function:
    if f"{name} function" not in match:
        return Function((), (match[name],))
    attributes = graph.producers[match[f"{name} function"]].attributes
    return Function(attributes["nodes"], attributes["names"])
