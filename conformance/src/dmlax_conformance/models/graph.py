"""A model's graph in JSON, so that nothing but NumPy is needed to evaluate it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import Malformed
from ..format import tensors
from ..format.tensors import DTYPES, Tensor

MICROSOFT = "com.microsoft"
OPSETS = {"": 19, MICROSOFT: 1}


@dataclass(frozen=True)
class Node:
    """A call of an operator; "" is an input that is absent.

    An attribute is an integer, a text, integers, or a float32 tensor of one element.
    """

    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


class TensorType(NamedTuple):
    """The data type and the sizes of an input."""

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in an order in which they run, and the constants that they read."""

    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    constants: Mapping[str, Tensor]
    nodes: tuple[Node, ...]

    def written(self) -> list[str]:
        """Return the tensors that nodes write, in order."""
        return [name for node in self.nodes for name in node.outputs]


def encode(graph: Graph) -> dict[str, Any]:
    """Return the JSON form."""
    return {
        "inputs": {name: _encode_type(each) for name, each in graph.inputs.items()},
        "outputs": list(graph.outputs),
        "constants": {name: tensors.encode(each) for name, each in graph.constants.items()},
        "nodes": [_encode_node(node) for node in graph.nodes],
    }


def _encode_type(given: TensorType) -> dict[str, Any]:
    return {"dtype": given.dtype, "sizes": list(given.sizes)}


def _encode_node(node: Node) -> dict[str, Any]:
    attributes = {name: _encode_attribute(value) for name, value in node.attributes.items()}
    return {
        "op": node.op,
        "domain": node.domain,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "attributes": attributes,
    }


def _encode_attribute(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tensors.encode(value)
    return list(value) if isinstance(value, tuple) else value


def decode(value: Mapping[str, Any], pointer: str) -> Graph:
    """Return the graph, or raise `Malformed` where it cannot run."""
    types = {name: TensorType(x["dtype"], tuple(x["sizes"])) for name, x in value["inputs"].items()}
    constants = {
        name: tensors.decode(each, f"{pointer}/constants/{name}")
        for name, each in value["constants"].items()
    }
    nodes = [
        _decode_node(each, f"{pointer}/nodes/{i}/attributes")
        for i, each in enumerate(value["nodes"])
    ]
    graph = Graph(types, tuple(value["outputs"]), constants, tuple(nodes))
    _check_order(graph, pointer)
    return graph


def _decode_node(value: Mapping[str, Any], pointer: str) -> Node:
    attributes = {
        name: _decode_attribute(each, f"{pointer}/{name}")
        for name, each in value["attributes"].items()
    }
    names = tuple(value["inputs"]), tuple(value["outputs"])
    return Node(value["op"], value["domain"], *names, attributes)


def _decode_attribute(value: Any, pointer: str) -> Any:
    if isinstance(value, dict):
        return tensors.decode(value, pointer)
    return tuple(value) if isinstance(value, list) else value


def _check_order(graph: Graph, pointer: str) -> None:
    """Raise `Malformed` at a tensor that is read before it is written, or written twice."""
    known = {"", *graph.inputs, *graph.constants}
    for index, node in enumerate(graph.nodes):
        place = f"{pointer}/nodes/{index}"
        for name in node.inputs:
            if name not in known:
                raise Malformed(f"{place}/inputs", f"no node before it writes {name!r}")
        for name in node.outputs:
            if name in known:
                raise Malformed(f"{place}/outputs", f"{name!r} exists already")
            known.add(name)
    for name in graph.outputs:
        if name not in known:
            raise Malformed(f"{pointer}/outputs", f"no node writes {name!r}")


def check_dtypes(value: Mapping[str, Any], pointer: str) -> None:
    """Raise `Malformed` at an input of an unknown data type."""
    for name, given in value["inputs"].items():
        if given["dtype"] not in DTYPES:
            raise Malformed(f"{pointer}/inputs/{name}", f"{given['dtype']} is no data type")
