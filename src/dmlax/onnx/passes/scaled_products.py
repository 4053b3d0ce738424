"""Fuses the scales and the bias into a product of integers, as dynamic quantization writes them."""

from collections.abc import Mapping

import numpy as np

from dmlax._core.requantize import Arithmetic
from dmlax.onnx.graph import MICROSOFT, Graph, Node


def fuse_scaled_products(graph: Graph, arithmetic: Arithmetic) -> Graph:
    """Replaces MatMulInteger, Cast, Mul and Add by a MatMulIntegerToFloat.

    Only in "float32", which rounds after each of them: "exact" would round the fused result once.
    """
    if arithmetic != "float32":
        return graph
    producers, single = graph.producers(), graph.single_use_producers()
    nodes = []
    for node in graph.nodes:
        fused = _with_bias(graph, producers, single, node)
        nodes.append(fused or _without_bias(graph, producers, single, node) or node)
    return graph.replace(nodes=tuple(nodes)).prune()


def _with_bias(
    graph: Graph, producers: Mapping[str, Node], single: Mapping[str, Node], node: Node
) -> Node | None:
    """The fused product for an Add of a constant vector, or None."""
    if (node.op, node.domain) != ("Add", ""):
        return None
    for scaled, bias in (node.inputs, node.inputs[::-1]):
        found = _without_bias(graph, producers, single, single.get(scaled))
        if found is not None and _is_bias(graph, found, bias):
            return found.replace(name=node.name, inputs=(*found.inputs, bias), outputs=node.outputs)
    return None


def _is_bias(graph: Graph, product: Node, name: str) -> bool:
    """True for a constant with a value for each column."""
    weight, bias = graph.constants.get(product.inputs[1]), graph.constants.get(name)
    return weight is not None and bias is not None and bias.shape == weight.shape[1:]


def _without_bias(
    graph: Graph,
    producers: Mapping[str, Node],
    single: Mapping[str, Node],
    node: Node | None,
) -> Node | None:
    """The fused product for a Mul by two scales, or None."""
    if node is None or (node.op, node.domain) != ("Mul", ""):
        return None
    for integer, scale in (node.inputs, node.inputs[::-1]):
        product, scales = _product(single, integer), _scales(graph, producers, scale)
        if product is not None and scales is not None:
            return _fuse(graph, node, product, *scales)
    return None


def _product(single: Mapping[str, Node], name: str) -> Node | None:
    """The MatMulInteger whose output is converted to float32, and read by nothing else."""
    cast = single.get(name)
    if cast is None or cast.op != "Cast" or cast.attributes.get("to") != 1:
        return None
    product = single.get(cast.inputs[0])
    return product if product is not None and product.op == "MatMulInteger" else None


def _scales(graph: Graph, producers: Mapping[str, Node], name: str) -> tuple[str, str] | None:
    """The scale of a dynamic quantization and the constant by which it is multiplied."""
    product = producers.get(name)
    if product is None or (product.op, product.domain) != ("Mul", ""):
        return None
    for a, b in (product.inputs, product.inputs[::-1]):
        source = producers.get(a)
        if source is not None and source.op == "DynamicQuantizeLinear" and b in graph.constants:
            return a, b
    return None


def _fuse(graph: Graph, node: Node, product: Node, a_scale: str, b_scale: str) -> Node | None:
    """The fused product, unless its scales or its weights have another form."""
    weight, scale = (graph.constants.get(each) for each in (product.inputs[1], b_scale))
    if weight is None or scale is None or weight.ndim != 2:
        return None
    if scale.size != 1 and scale.shape != weight.shape[1:]:
        return None
    if not (np.isfinite(scale).all() and scale.all()):
        return None  # an operator refuses constant scales that are 0 or infinite
    a, b, *zero_points = product.inputs
    zero_points += [""] * (2 - len(zero_points))
    return node.replace(
        op="MatMulIntegerToFloat",
        domain=MICROSOFT,
        version=1,
        inputs=(a, b, a_scale, b_scale, *zero_points),
        attributes={},
    )
