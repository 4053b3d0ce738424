"""Fuses normalizations: of nodes that a file spells out, and of bytes between floats."""

import numpy as np

from dmlax.onnx.graph import OWN, Graph, Node
from dmlax.onnx.passes.patterns import Constant, Match, Op, SingleUse, number, replaces
from dmlax.onnx.passes.qdq import keeps_float32


def _is_over_last_axis(graph: Graph, mean: Node) -> bool:
    axes = mean.attributes.get("axes")
    if len(mean.inputs) > 1:
        constant = graph.constants.get(mean.inputs[1])
        axes = None if constant is None else constant.ravel().tolist()
    return axes is not None and tuple(axes) == (-1,) and bool(mean.attributes.get("keepdims", 1))


_SQUARE = Op("Pow", "x", number(2)) | Op("Mul", "x", "x")
_VARIANCE = Op("ReduceMean", _SQUARE, fits=_is_over_last_axis)
_EPSILON = Constant("epsilon", lambda array: array.size == 1)
_DEVIATION = Op("Sqrt", Op("Add", _VARIANCE, _EPSILON))
_INVERSE = Op("Reciprocal", _DEVIATION) | Op("Div", number(1), _DEVIATION)
_NORMALIZED = SingleUse("Div", "x", _DEVIATION) | SingleUse("Mul", "x", _INVERSE)
_SCALE = Constant("scale", lambda array: array.ndim == 1 and array.size > 1)
_SCALED = SingleUse("Mul", _NORMALIZED, _SCALE)
_CENTRED = Op("Sub", "x", Op("ReduceMean", "x", fits=_is_over_last_axis))


@replaces(_SCALED, Op("Add", _SCALED, Constant("bias")))
def fuse_normalizations(graph: Graph, node: Node, match: Match) -> Node | None:
    """Replaces layer and root-mean-square normalizations of the last axis by one node."""
    parameters = [match[name] for name in ("scale", "bias") if name in match]
    if len({graph.constants[name].shape for name in parameters}) > 1:
        return None
    attributes = {"epsilon": float(graph.constants[match["epsilon"]].item())}
    centred = _CENTRED.find(graph, match["x"])
    if centred is None:
        inputs = (match["x"], *parameters)
        return node.become("RootMeanSquareNormalization", OWN, inputs, attributes)
    inputs = (centred["x"], *parameters)
    return node.become("LayerNormalization", "", inputs, attributes, version=17)


def _is_of_bytes(graph: Graph, node: Node) -> bool:
    """True for one float32 scale and an 8-bit zero point."""
    if not node.input(2) or not graph.has_one_scale(node):
        return False
    scale, zero_point = (graph.constants[name] for name in node.inputs[1:])
    return (
        keeps_float32(node)
        and scale.dtype == np.float32
        and zero_point.dtype in (np.int8, np.uint8)
    )


def _is_of_last_axis(graph: Graph, normalization: Node) -> bool:
    """True for a normalization of the last axis whose statistics nothing reads."""
    is_read = any(name in graph.consumers for name in normalization.outputs[1:])
    is_output = not {*graph.outputs}.isdisjoint(normalization.outputs[1:])
    return normalization.attributes.get("axis", -1) == -1 and not (is_read or is_output)


_DEQUANTIZED = Op("DequantizeLinear", domain=None, name="floats", fits=_is_of_bytes)
_OF_FLOATS = SingleUse("LayerNormalization", _DEQUANTIZED, name="y", fits=_is_of_last_axis)


@replaces(Op("QuantizeLinear", _OF_FLOATS, domain=None, fits=_is_of_bytes))
def fuse_layer_normalizations(graph: Graph, quantize: Node, match: Match) -> Node:
    """Replaces DequantizeLinear, LayerNormalization, QuantizeLinear by one operator."""
    dequantize, normalization = (graph.producers[match[name]] for name in ("floats", "y"))
    parameters = (normalization.input(1), normalization.input(2))
    inputs = (*dequantize.inputs, *parameters, *quantize.inputs[1:])
    attributes = {name: x for name, x in normalization.attributes.items() if name == "epsilon"}
    return quantize.become("QuantizedLayerNormalization", OWN, inputs, attributes)
