"""Makes uint8 of int8 between two nodes, as ONNX Runtime's extended level does on x86.

Sums, pools and products add the zero point before they round, so that ties depend on the dtype.
"""

import numpy as np

from dmlax.onnx.graph import Graph, Node
from dmlax.onnx.passes.qdq import is_dequantize, is_quantize

_SHIFT = 128


def shift_signed_bytes(graph: Graph) -> Graph:
    """Quantizes to uint8 where only DequantizeLinears read int8.

    ONNX Runtime leaves int8 whose floats several nodes read; here it is uint8, too.
    """
    constants, changed = dict(graph.constants), dict[str, list[Node]]()
    for quantize in filter(is_quantize, graph.nodes):
        readers = _readers(graph, quantize)
        if not readers:
            continue
        shifted = graph.unused_name(f"{quantize.outputs[0]}@uint8")
        point = graph.unused_name(f"{quantize.outputs[0]}@zero_point")
        zero = graph.constants[quantize.inputs[2]].astype(np.int32)
        constants[point] = np.asarray(zero + _SHIFT, np.uint8)
        attributes = {k: x for k, x in quantize.attributes.items() if k != "output_dtype"}
        inputs = (*quantize.inputs[:2], point)
        twin = quantize.replace(inputs=inputs, outputs=(shifted,), attributes=attributes)
        changed[quantize.outputs[0]] = [twin]
        if quantize.outputs[0] in graph.outputs:  # a caller asks for it: the same number as int8
            real = graph.unused_name(f"{quantize.outputs[0]}@real")
            back = readers[0].replace(inputs=(shifted, quantize.inputs[1], point), outputs=(real,))
            inputs = (real, *quantize.inputs[1:])
            changed[quantize.outputs[0]] += [back, quantize.replace(inputs=inputs)]
        for node in readers:
            changed[node.outputs[0]] = [node.replace(inputs=(shifted, node.inputs[1], point))]
    graph = graph.replace(constants=constants)
    return graph.rewrite(lambda node: changed.get(node.outputs[0]))


def _readers(graph: Graph, quantize: Node) -> list[Node]:
    """The DequantizeLinears that read a node's int8; none if something else reads it."""
    tensor, zero = quantize.outputs[0], graph.constants.get(quantize.input(2))
    outputs = {*graph.outputs} - graph.inner
    if zero is None or zero.dtype != np.int8 or zero.size != 1:
        return []
    nodes = graph.consumers.get(tensor, [])
    if tensor in outputs or not all(map(is_dequantize, nodes)):
        return []
    points = [graph.constants.get(node.input(2)) if node.input(2) else zero * 0 for node in nodes]
    is_same = all(x is not None and x.size == 1 and x.item() == zero.item() for x in points)
    return nodes if is_same and all(node.inputs[0] == tensor for node in nodes) else []
