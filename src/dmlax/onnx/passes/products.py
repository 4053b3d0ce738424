"""Fuses matrix products with transposes, with scales and biases, and with dequantized weights."""

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.operators.values import DTYPES, NARROW
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
    if arithmetic != "float32" or scale.shape not in ((), (1,), columns):
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


def _is_held_packed(graph: Graph, dequantize: Node) -> bool:
    """True for a constant matrix in blocks, or of fewer than 8 bits; float32 holds its values."""
    w = graph.constants.get(dequantize.inputs[0])
    if w is None or w.ndim != 2 or w.dtype.itemsize > 2:
        return False
    return w.dtype.name in NARROW or bool(dequantize.attributes.get("block_size"))


_WEIGHTS = Op("DequantizeLinear", domain=None, name="weights", fits=_is_held_packed)


@replaces(Op("Gather", _WEIGHTS), Op("MatMul", "a", _WEIGHTS), Op("Gemm", "a", _WEIGHTS))
def fuse_dequantized_weights(
    graph: Graph, node: Node, match: Match, arithmetic: Arithmetic
) -> list[Node] | None:
    """Replaces DequantizeLinear and the product, or the Gather, that reads its result."""
    dequantize = graph.producers[match["weights"]]
    if node.op == "Gather":
        return _gather(graph, dequantize, node)
    level = 4 if arithmetic == "float32" and _rounds_rows(graph, dequantize, node) else 0
    return _multiply(graph, dequantize, node, level)


def _rounds_rows(graph: Graph, dequantize: Node, product: Node) -> bool:
    """True where ONNX Runtime makes the nodes a MatMulNBits of accuracy level 4."""
    w, (output,), attributes = dequantize.inputs[0], dequantize.outputs, dequantize.attributes
    parameters = [graph.constants.get(name) for name in dequantize.inputs[1:] if name]
    scale, axis = parameters[0], attributes.get("axis", 1)
    if scale is None or scale.dtype != np.float32 or any(x is None for x in parameters):
        return False
    is_alone = len(graph.consumers[w]) == len(graph.consumers[output]) == 1
    if not is_alone or output in graph.outputs or product.attributes.get("transB"):
        return False
    if block_size := attributes.get("block_size", 0):
        return bool(axis == 0 and block_size >= 16 and not block_size & (block_size - 1))
    return scale.ndim == 0 or axis == 1


def _gather(graph: Graph, dequantize: Node, gather: Node) -> list[Node] | None:
    """Rows of a table in blocks along its other axis."""
    block_size = dequantize.attributes.get("block_size", 0)
    axis, row_axis = dequantize.attributes.get("axis", 1), gather.attributes.get("axis", 0)
    is_narrow = graph.constants[dequantize.inputs[0]].dtype.name in NARROW
    if not block_size or not is_narrow or (axis % 2, row_axis % 2) != (1, 0):
        return None
    number = dequantize.attributes.get("output_dtype", 0)
    scale = graph.constants.get(dequantize.inputs[1])
    if number and (scale is None or scale.dtype != DTYPES.get(number)):
        return None  # the rows would have the scale's dtype
    attributes = {"block_size": block_size, "quantize_axis": 1, "gather_axis": 0}
    inputs = (dequantize.inputs[0], gather.inputs[1], *dequantize.inputs[1:])
    return [gather.become("GatherBlockQuantized", MICROSOFT, inputs, attributes)]


def _multiply(graph: Graph, dequantize: Node, product: Node, level: int) -> list[Node] | None:
    """A product whose blocks lie along the axis that it sums over."""
    options = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0, **product.attributes}
    transposed = int(bool(options["transB"]))
    axis = dequantize.attributes.get("axis", 1)
    block_size = dequantize.attributes.get("block_size", 0)
    if options["transA"] or options["alpha"] != 1 or options["beta"] != 1:
        return None
    if block_size and axis % 2 != transposed:
        return None
    attributes = {"axis": axis, "block_size": block_size, "transposed": transposed}
    attributes |= {"accuracy_level": level} if level else {}
    inputs = (product.inputs[0], *dequantize.inputs)
    fused = product.become("DequantizedMatMul", OWN, inputs, attributes)
    if not (bias := product.input(2)):
        return [fused]
    y = graph.unused_name(f"{product.outputs[0]}@product")
    return [fused.replace(outputs=(y,)), product.become("Add", "", (y, bias), version=14)]
