"""Dequantizes weights of blocks, or of few bits, in the product or the Gather that reads them."""

from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.operators.values import NARROW
from dmlax.onnx.passes.patterns import Match, Op, replaces


def _is_held_packed(graph: Graph, dequantize: Node) -> bool:
    """True for a constant matrix in blocks, or of fewer than 8 bits."""
    w = graph.constants.get(dequantize.inputs[0])
    if w is None or w.ndim != 2:
        return False
    return w.dtype.name in NARROW or bool(dequantize.attributes.get("block_size"))


_WEIGHTS = Op("DequantizeLinear", domain=None, name="weights", fits=_is_held_packed)


@replaces(Op("Gather", _WEIGHTS), Op("MatMul", "a", _WEIGHTS), Op("Gemm", "a", _WEIGHTS))
def fuse_dequantized_weights(graph: Graph, node: Node, match: Match) -> list[Node] | None:
    """Replaces DequantizeLinear and the product, or the Gather, that reads its result."""
    fuse = _gather if node.op == "Gather" else _multiply
    return fuse(graph, graph.producers[match["weights"]], node)


def _gather(graph: Graph, dequantize: Node, gather: Node) -> list[Node] | None:
    """Rows of a table in blocks along its other axis."""
    block_size = dequantize.attributes.get("block_size", 0)
    axis, row_axis = dequantize.attributes.get("axis", 1), gather.attributes.get("axis", 0)
    is_narrow = graph.constants[dequantize.inputs[0]].dtype.name in NARROW
    if not block_size or not is_narrow or (axis % 2, row_axis % 2) != (1, 0):
        return None
    attributes = {"block_size": block_size, "quantize_axis": 1, "gather_axis": 0}
    inputs = (dequantize.inputs[0], gather.inputs[1], *dequantize.inputs[1:])
    return [gather.become("GatherBlockQuantized", MICROSOFT, inputs, attributes)]


def _multiply(graph: Graph, dequantize: Node, product: Node) -> list[Node] | None:
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
    inputs = (product.inputs[0], *dequantize.inputs)
    fused = product.become("DequantizedMatMul", OWN, inputs, attributes)
    if not (bias := product.input(2)):
        return [fused]
    y = graph.unused_name(f"{product.outputs[0]}@product")
    return [fused.replace(outputs=(y,)), product.become("Add", "", (y, bias), version=14)]
