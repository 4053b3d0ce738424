"""Fuses matrix products with the transpose before them, or the scales and the bias behind them."""

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import MICROSOFT, Graph, Node
from dmlax.onnx.passes.patterns import Constant, Match, Op, SingleUse, replaces


def _swaps_last_axes(graph: Graph, transpose: Node) -> bool:
    perm = transpose.attributes.get("perm", ())
    *axes, row, column = range(max(len(perm), 2))
    return tuple(perm) == (*axes, column, row)


@replaces(Op("MatMul", "a", Op("Transpose", "b", fits=_swaps_last_axes)))
def fuse_transposes(graph: Graph, product: Node, match: Match) -> Node:
    """Replaces the MatMul of a Transpose of the last two axes by a FusedMatMul."""
    return product.become("FusedMatMul", MICROSOFT, (match["a"], match["b"]), {"transB": 1})


def _is_to_float32(graph: Graph, cast: Node) -> bool:
    return cast.attributes.get("to") == 1


_INTEGERS = SingleUse("MatMulInteger", "a", Constant("b", lambda array: array.ndim == 2), name="y")
_FLOATS = SingleUse("Cast", _INTEGERS, domain=None, fits=_is_to_float32)
_SCALES = Op("Mul", Op("DynamicQuantizeLinear", name="a_scale"), Constant("b_scale"))
_SCALED = SingleUse("Mul", _FLOATS, _SCALES)


@replaces(_SCALED, Op("Add", _SCALED, Constant("bias")))
def fuse_scaled_products(
    graph: Graph, node: Node, match: Match, arithmetic: Arithmetic
) -> Node | None:
    """Replaces MatMulInteger, Cast, Mul and Add by a MatMulIntegerToFloat.

    Only in "float32", which rounds after each of them: "exact" would round the fused result once.
    """
    columns, scale = graph.constants[match["b"]].shape[1:], graph.constants[match["b_scale"]]
    if arithmetic != "float32" or (scale.size != 1 and scale.shape != columns):
        return None
    if not (np.isfinite(scale).all() and scale.all()):
        return None  # the operator refuses constant scales that are 0 or infinite
    bias = [match["bias"]] if "bias" in match else []
    if any(graph.constants[name].shape != columns for name in bias):
        return None
    product = graph.producers[match["y"]]
    operands = (match["a"], match["b"], match["a_scale"], match["b_scale"])
    inputs = (*operands, product.input(2), product.input(3), *bias)
    return node.become("MatMulIntegerToFloat", MICROSOFT, inputs)
