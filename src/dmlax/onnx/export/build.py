"""An ONNX model of a graph that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dmlax.onnx.export.writer import MICROSOFT, Tensor, Writer

if TYPE_CHECKING:
    import onnx

_EXTRA = 'writing an ONNX model needs the onnx package: pip install "dmlax[onnx]"'


def newest_opset() -> int:
    """The newest opset that the installed `onnx` knows."""
    try:
        from onnx import defs
    except ImportError:
        raise ImportError(_EXTRA) from None
    return int(defs.onnx_opset_version())


def model(
    writer: Writer, inputs: Sequence[Tensor], outputs: Mapping[str, Tensor]
) -> onnx.ModelProto:
    """Makes the model of the nodes that the outputs need."""
    from onnx import helper, numpy_helper

    nodes = _with_outputs(writer, {name: writer.name(x) for name, x in outputs.items()})
    read = {name for node in nodes for name in node.input}
    constants = {name: x for name, x in writer.initializers.items() if name in read}
    graph = helper.make_graph(
        nodes,
        "dmlax",
        [_value(x.name, x) for x in inputs],
        [_value(name, x) for name, x in outputs.items()],
        [numpy_helper.from_array(np.asarray(x, order="C"), name) for name, x in constants.items()],
    )
    versions = {"": writer.opset, MICROSOFT: 1}
    domains = sorted({"", *(node.domain for node in nodes)})
    opsets = [helper.make_opsetid(domain, versions[domain]) for domain in domains]
    version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="dmlax")


def _with_outputs(writer: Writer, ends: Mapping[str, str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs need, which carry the outputs' names."""
    from onnx import helper

    live = set(ends.values())
    nodes: list[onnx.NodeProto] = []
    for node in reversed(writer.nodes):
        if live & {*node.output}:
            nodes.append(node)
            live |= {*node.input}
    nodes.reverse()
    made = {name for node in nodes for name in node.output}
    names = {end: name for name, end in reversed(list(ends.items())) if end in made}
    for node in nodes:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(name, name) for name in tensors]
    copies = [(names.get(end, end), name) for name, end in ends.items() if names.get(end) != name]
    return nodes + [helper.make_node("Identity", [source], [name]) for source, name in copies]


def _value(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    from onnx import helper

    sizes = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(tensor.dtype), sizes)
