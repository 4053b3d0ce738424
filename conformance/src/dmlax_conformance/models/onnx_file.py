"""ONNX files of graphs; only this needs the package `onnx`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..format.tensors import Tensor, to_numpy
from .arrays import value_of
from .graph import OPSETS, Graph, Node, TensorType

IR_VERSION = 8
ONNX_DTYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}


def to_bytes(graph: Graph, values: Mapping[str, Tensor], outputs: Sequence[str] = ()) -> bytes:
    """Return the file, with other outputs perhaps; equal graphs give equal bytes.

    The values say the types of the outputs. Sizes that depend on values of an input are left open.
    """
    helper: Any = import_module("onnx.helper")
    infos = [_info(helper, name, given) for name, given in graph.inputs.items()]
    nodes = [_node(helper, node) for node in graph.nodes]
    constants = [_constant(name, tensor) for name, tensor in graph.constants.items()]
    is_open = _sized_by_values(graph)
    ends = [_end(helper, name, values[name], name in is_open) for name in outputs or graph.outputs]
    made = helper.make_graph(nodes, "graph", infos, ends, constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION)
    written: bytes = model.SerializeToString(deterministic=True)
    return written


def _sized_by_values(graph: Graph) -> set[str]:
    """Return the tensors that depend on the output of a NonZero."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.op == "NonZero" or found.intersection(node.inputs):
            found.update(node.outputs)
    return found


def _end(helper: Any, name: str, value: Tensor, is_open: bool) -> Any:
    sizes = [None] * len(value.sizes) if is_open else value.sizes
    return helper.make_tensor_value_info(name, ONNX_DTYPES[value.dtype], sizes)


def _info(helper: Any, name: str, given: TensorType) -> Any:
    return helper.make_tensor_value_info(name, ONNX_DTYPES[given.dtype], given.sizes)


def _node(helper: Any, node: Node) -> Any:
    attributes = {name: _attribute(value) for name, value in sorted(node.attributes.items())}
    ends = list(node.inputs), list(node.outputs)
    return helper.make_node(node.op, *ends, name=node.outputs[0], domain=node.domain, **attributes)


def _attribute(value: Any) -> Any:
    return float(value_of(value.words[0], value.dtype)) if isinstance(value, Tensor) else value


def _constant(name: str, tensor: Tensor) -> Any:
    return import_module("onnx.numpy_helper").from_array(to_numpy(tensor), name)
