"""Convolutions and products of float32 by a CPU's kernels, with the nodes that follow them."""

from collections.abc import Iterable

import numpy as np

from dmlax._fused.float_convolution.call import packs_filters
from dmlax.onnx.check import Avals
from dmlax.onnx.graph import OWN, Graph, Node
from dmlax.onnx.operators.windows import Windows
from dmlax.onnx.passes.patterns import Constant, Match, Op, SingleUse, replaces

_CONSTANT = Constant("w", lambda w: w.dtype == np.float32 and w.size > 0)
_CONVOLUTION = Op("Conv", "x", _CONSTANT)
_PRODUCTS = Op("Gemm", "x", _CONSTANT), Op("MatMul", "x", _CONSTANT)
_IMAGES = range(3, 6)  # ranks
_PLAIN = {"transA": 0, "alpha": 1.0, "beta": 1.0}
_BIAS, _FACTOR, _RESIDUAL = 2, 3, {"FloatConv": 4, "FloatGemm": 3}


@replaces(_CONVOLUTION, *_PRODUCTS)
def use_float_kernels(graph: Graph, node: Node, match: Match) -> Node | None:
    """Replaces operators of constant weights by those whose weights are packed once."""
    if not packs_filters():
        return None
    w, attributes = graph.constants[match["w"]], dict(node.attributes)
    if node.op == "Conv":
        fits = w.ndim in _IMAGES and attributes.keys() <= {*Windows._fields}
        return node.become("FloatConv", OWN, node.inputs, attributes) if fits else None
    if w.ndim != 2 or not attributes.keys() <= {*_PLAIN, "transB"}:
        return None
    attributes = {"transB": 0, **_PLAIN, **attributes}
    columns = w.shape[0 if attributes["transB"] else 1]
    bias = graph.constants.get(node.input(2))
    has_bias = bias is not None and bias.size == columns and bias.shape[-1:] == (columns,)
    is_plain = all(attributes[name] == value for name, value in _PLAIN.items())
    if is_plain and (has_bias or not node.input(2)):
        attributes = {"transB": attributes["transB"]}
    return node.become("FloatGemm", OWN, node.inputs, attributes)


def _float_convolution(name: str = "y") -> Op:
    """A convolution that nothing follows yet, read in one place."""
    return SingleUse("FloatConv", domain=OWN, name=name, fits=_has_no_end)


def _is_open(graph: Graph, node: Node) -> bool:
    """True for a product that no function ends, and that nothing else follows in its operator."""
    return node.attributes.keys().isdisjoint(("activation", "beta"))


def _has_no_end(graph: Graph, node: Node) -> bool:
    return _is_open(graph, node) and not node.input(_RESIDUAL[node.op])


_NORMALIZED = Op("BatchNormalization", _float_convolution(), *map(Constant, "abcd"))
_SCALED = Op("Mul", _float_convolution(), Constant("a"))
_MOVED = Op("Add", _float_convolution(), Constant("b"))


def fold_channels(graph: Graph) -> Graph:
    """Makes factors and offsets of channels, as of a batch normalization, a convolution's own."""
    constants = dict(graph.constants)

    def fold(node: Node) -> Node | None:
        for pattern in (_NORMALIZED, _SCALED, _MOVED):
            for match in pattern.matches_of(graph, node, {}):
                convolution = graph.producers[match["y"]]
                if folded := _fold(graph, constants, convolution, node, match):
                    return folded
        return None

    changed = graph.rewrite(fold)
    folded = changed.replace(constants={**constants}).prune()
    return folded if len(folded.nodes) == len(graph.nodes) else fold_channels(folded)


def _fold(
    graph: Graph, constants: dict[str, np.ndarray], convolution: Node, node: Node, match: Match
) -> Node | None:
    """The convolution with the factors and offsets of a node, or None."""
    w = constants[convolution.inputs[1]]
    channels, given = w.shape[0], [constants.get(convolution.input(i)) for i in (_BIAS, _FACTOR)]
    names = [convolution.input(i) for i in (_BIAS, _FACTOR)]
    if any(name and x is None for name, x in zip(names, given, strict=True)):
        return None
    bias, factor = given
    if node.op == "BatchNormalization":
        values = [constants[match[name]] for name in "abcd"]
        is_training = node.attributes.get("training_mode") or len(node.outputs) > 1
        is_known = {*node.attributes} <= {"epsilon", "momentum", "training_mode", "spatial"}
        if is_training or not is_known or node.attributes.get("spatial", 1) != 1:
            return None
    else:
        values = [constants[match[name]] for name in "ab" if name in match]
        if any(not _is_of_channels(x, channels, w.ndim) for x in values):
            return None
    if any(x.size != channels or x.dtype != np.float32 for x in values):
        return None
    first, *others = (x.ravel() for x in values)
    with np.errstate(all="ignore"):
        if others:
            offset, mean, variance = others
            epsilon = np.float32(node.attributes.get("epsilon", 1e-5))
            scale = np.float32(1) / np.sqrt(variance + epsilon) * first
            shift = offset - mean * scale
        else:
            is_sum = node.op == "Add"
            scale, shift = (None, first) if is_sum else (first, None)
        if scale is not None:
            factor = scale if factor is None else factor * scale
            bias = None if bias is None else bias * scale
        bias = shift if bias is None else bias if shift is None else bias + shift
    inputs = [*convolution.inputs[:2], "", ""]
    for place, values_of in ((_BIAS, bias), (_FACTOR, factor)):
        if values_of is not None:
            inputs[place] = _add_constant(graph, constants, f"{node.outputs[0]}@{place}", values_of)
    return node.become("FloatConv", OWN, inputs, convolution.attributes)


def _is_of_channels(x: np.ndarray, channels: int, rank: int) -> bool:
    """True for a value for every channel of images of a rank."""
    sizes = (1,) * (rank - x.ndim) + x.shape
    return x.ndim <= rank and sizes == (1, channels, *(1,) * (rank - 2))


def _add_constant(
    graph: Graph, constants: dict[str, np.ndarray], wanted: str, values: np.ndarray
) -> str:
    name = graph.unused_name(wanted)
    while name in constants:
        name += "'"
    constants[name] = values
    return name


_ENDS = tuple(
    SingleUse(op, domain=OWN, name="y", fits=_has_no_end) for op in ("FloatConv", "FloatGemm")
)
_SUMS = tuple(Op("Add", end, "other") for end in _ENDS)
_OPEN = tuple(
    SingleUse(op, domain=OWN, name="y", fits=_is_open) for op in ("FloatConv", "FloatGemm")
)


@replaces(*_SUMS)
def fuse_float_sums(graph: Graph, add: Node, match: Match, avals: Avals) -> Node | None:
    """Makes the sum with a tensor of the same shape, or with a bias, a part of the product."""
    product, other = graph.producers[match["y"]], match["other"]
    y, x = avals.get(match["y"]), avals.get(other)
    if y is None or x is None or x.dtype != np.float32 or add.attributes:
        return None
    inputs = [*product.inputs, "", "", "", ""][: _RESIDUAL[product.op] + 1]
    is_columns = product.op == "FloatGemm" and 0 < len(x.shape) <= len(y.shape)
    sizes = (*(1,) * (len(y.shape) - 1), *y.shape[-1:])
    if is_columns and not inputs[_BIAS] and x.shape == sizes[len(y.shape) - len(x.shape) :]:
        inputs[_BIAS] = other
    elif x.shape == y.shape:
        inputs[_RESIDUAL[product.op]] = other
    else:
        return None
    return add.become(product.op, OWN, _without_ends(inputs), product.attributes)


def _without_ends(inputs: Iterable[str]) -> list[str]:
    names = [*inputs]
    while not names[-1]:
        names.pop()
    return names


_FUNCTIONS = ("Relu", "Clip", "HardSigmoid", "HardSwish", "Sigmoid")


@replaces(*(Op(name, end) for name in _FUNCTIONS for end in _OPEN))
def fuse_float_functions(graph: Graph, node: Node, match: Match, avals: Avals) -> Node | None:
    """Makes the function of a product's result a part of the product."""
    function = _function(graph, node)
    if function is None:
        return None
    product = graph.producers[match["y"]]
    return node.become(product.op, OWN, product.inputs, {**product.attributes, **function})


def _function(graph: Graph, node: Node) -> dict[str, object] | None:
    """The attributes of an epilogue's function."""
    if node.op == "Relu":
        return {"activation": "clip", "low": 0.0, "high": float("inf")}
    if node.op == "HardSwish":
        return {"activation": "hard_swish", "low": 1 / 6, "high": 0.5}
    if node.op == "HardSigmoid":
        low, high = node.attributes.get("alpha", 0.2), node.attributes.get("beta", 0.5)
        return {"activation": "hard_sigmoid", "low": low, "high": high}
    if node.op == "Sigmoid":
        return {"activation": "sigmoid"}
    limits, most = [], float(np.finfo(np.float32).max)  # of an absent limit; NaN limits nothing
    for place, name, none, end in ((1, "min", -np.inf, -most), (2, "max", np.inf, most)):
        array = graph.constants.get(node.input(place))
        if node.input(place) and (array is None or array.size != 1):
            return None
        limit = node.attributes.get(name, end) if array is None else array.item()
        limits.append(none if limit != limit else float(limit))
    return {"activation": "clip", "low": limits[0], "high": limits[1]}


def _open_end(graph: Graph, y: str, *readers: str) -> Node | None:
    """The product without a function whose result is read by these nodes alone, or None."""
    end = graph.producers.get(y)
    if end is None or end.domain != OWN or end.op not in _RESIDUAL or not _is_open(graph, end):
        return None
    found = [node.outputs[0] for node in graph.consumers[y]]
    return end if sorted(found) == sorted(readers) and y not in graph.outputs else None


@replaces(Op("Mul", "y", SingleUse("Sigmoid", "y", name="share")))
def fuse_float_silus(graph: Graph, product: Node, match: Match, avals: Avals) -> Node | None:
    """Makes the product of a result and its sigmoid a part of the convolution or product."""
    end = _open_end(graph, match["y"], match["share"], product.outputs[0])
    if end is None:
        return None
    return product.become(end.op, OWN, end.inputs, {**end.attributes, "activation": "silu"})


_NUMBER = {"fits": lambda array: array.size == 1 and array.ndim < 2}
_SHIFTED = SingleUse("Add", "y", Constant("shift", **_NUMBER), name="shifted")
_LIMITED = SingleUse("Clip", _SHIFTED, name="limited")
_WEIGHTED = SingleUse("Mul", "y", _LIMITED, name="product")


@replaces(Op("Div", _WEIGHTED, Constant("divisor", **_NUMBER)))
def fuse_float_swishes(graph: Graph, quotient: Node, match: Match, avals: Avals) -> Node | None:
    """Makes y * clip(y + shift, 0, limit) / limit a part of the convolution or product."""
    end = _open_end(graph, match["y"], match["shifted"], match["product"])
    clip = _function(graph, graph.producers[match["limited"]])
    shift, divisor = (float(graph.constants[match[name]].item()) for name in ("shift", "divisor"))
    if end is None or clip is None or (clip["low"], clip["high"]) != (0.0, divisor):
        return None
    function = {"activation": "shifted_swish", "low": shift, "high": divisor}
    return quotient.become(end.op, OWN, end.inputs, {**end.attributes, **function})
