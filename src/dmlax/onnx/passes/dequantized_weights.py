"""Dequantizes weights of blocks, or of few bits, in the product or the Gather that reads them."""

from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.operators.values import NARROW
from dmlax.onnx.passes.qdq import is_dequantize


def fuse_dequantized_weights(graph: Graph) -> Graph:
    """Replaces DequantizeLinear and the product, or the Gather, that reads its result."""
    producers, nodes = graph.producers(), []
    for node in graph.nodes:
        place = {"MatMul": 1, "Gemm": 1, "Gather": 0}.get(node.op)
        before = None if node.domain or place is None else producers.get(node.inputs[place])
        if before is None or not is_dequantize(before) or not _is_held_packed(graph, before):
            nodes.append(node)
        else:
            nodes += _gather(graph, before, node) if place == 0 else _product(graph, before, node)
    return graph.replace(nodes=tuple(nodes))


def _is_held_packed(graph: Graph, dequantize: Node) -> bool:
    """True for a constant matrix in blocks, or of fewer than 8 bits."""
    w = graph.constants.get(dequantize.inputs[0])
    if w is None or w.ndim != 2:
        return False
    return w.dtype.name in NARROW or bool(dequantize.attributes.get("block_size"))


def _gather(graph: Graph, dequantize: Node, gather: Node) -> list[Node]:
    """Rows of a table in blocks along its other axis."""
    block_size = dequantize.attributes.get("block_size", 0)
    axis, gathered = dequantize.attributes.get("axis", 1), gather.attributes.get("axis", 0)
    is_narrow = graph.constants[dequantize.inputs[0]].dtype.name in NARROW
    if not block_size or not is_narrow or (axis % 2, gathered % 2) != (1, 0):
        return [gather]
    attributes = {"block_size": block_size, "quantize_axis": 1, "gather_axis": 0}
    table, *parameters = dequantize.inputs
    inputs = (table, gather.inputs[1], *parameters)
    made = {"op": "GatherBlockQuantized", "domain": MICROSOFT, "version": 1}
    return [gather.replace(inputs=inputs, attributes=attributes, **made)]


def _product(graph: Graph, dequantize: Node, product: Node) -> list[Node]:
    """A product whose blocks lie along the axis that it sums over."""
    given, options = product.attributes, dequantize.attributes
    transposed = int(bool(given.get("transB", 0)))
    axis, block_size = options.get("axis", 1), options.get("block_size", 0)
    if given.get("transA", 0) or given.get("alpha", 1.0) != 1 or given.get("beta", 1.0) != 1:
        return [product]
    if block_size and axis % 2 != transposed:
        return [product]
    attributes = {"axis": axis, "block_size": block_size, "transposed": transposed}
    bias = (*product.inputs[2:], "")[0]
    output = product.outputs[0]
    inner = graph.unused_name(f"{output}@product") if bias else output
    inputs = (product.inputs[0], *dequantize.inputs)
    made = {"op": "DequantizedMatMul", "domain": OWN, "version": 1}
    nodes = [product.replace(inputs=inputs, outputs=(inner,), attributes=attributes, **made)]
    if bias:
        added = {"op": "Add", "version": 14, "attributes": {}}
        nodes.append(product.replace(inputs=(inner, bias), **added))
    return nodes
