"""Fuses a function of each byte of a QGemm's output into it."""

from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node
from dmlax.onnx.passes.layout import Avals

_INPUTS = 9  # of a QGemm, with its bias or without


def fuse_gemm_functions(graph: Graph, avals: Avals) -> Graph:
    """Replaces each ByteFunction of a QGemm's output by a QGemm that looks it up.

    Args:
      graph: an output that it gives is not fused.
      avals: of every tensor.
    """
    producers = graph.single_use_producers()
    nodes = []
    for node in graph.nodes:
        if (node.op, node.domain) == ("ByteFunction", OWN):
            (source, *constants) = node.inputs
            gemm = producers.get(source)
            if gemm is not None and _is_quantized(gemm):
                node = gemm.replace(
                    domain=OWN,
                    version=1,
                    inputs=(*gemm.inputs, *constants),
                    outputs=node.outputs,
                    attributes={**gemm.attributes, **node.attributes},
                )
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes)).prune()


def _is_quantized(node: Node) -> bool:
    return (node.op, node.domain) == ("QGemm", MICROSOFT) and len(node.inputs) == _INPUTS
