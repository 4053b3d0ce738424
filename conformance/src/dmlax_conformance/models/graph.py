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
    """The data type and the sizes of an input; an open size is None."""

    dtype: str
    sizes: tuple[int | None, ...]


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


def encode(value: Any) -> Any:
    """Return the JSON form of a graph, or of a part of one."""
    if isinstance(value, Tensor):
        return tensors.encode(value)
    if isinstance(value, TensorType):
        return {"dtype": value.dtype, "sizes": list(value.sizes)}
    if isinstance(value, Graph | Node):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: encode(each) for name, each in value.items()}
    return [encode(each) for each in value] if isinstance(value, tuple) else value


def decode(value: Mapping[str, Any], pointer: str) -> Graph:
    """Return the graph, or raise `Malformed` where it cannot run."""
    types = {
        name: _decode_type(each, f"{pointer}/inputs/{name}")
        for name, each in value["inputs"].items()
    }
    constants = decode_tensors(value["constants"], f"{pointer}/constants")
    nodes = [
        _decode_node(each, f"{pointer}/nodes/{i}/attributes")
        for i, each in enumerate(value["nodes"])
    ]
    graph = Graph(types, tuple(value["outputs"]), constants, tuple(nodes))
    _check_order(graph, pointer)
    return graph


def decode_tensors(value: Mapping[str, Any], pointer: str) -> dict[str, Tensor]:
    """Return tensors by name."""
    return {name: tensors.decode(each, f"{pointer}/{name}") for name, each in value.items()}


def _decode_type(value: Mapping[str, Any], pointer: str) -> TensorType:
    if value["dtype"] not in DTYPES:
        raise Malformed(pointer, f"{value['dtype']} is no data type")
    return TensorType(value["dtype"], tuple(value["sizes"]))


def _decode_node(value: Mapping[str, Any], pointer: str) -> Node:
    given = value["attributes"]
    attributes = {name: tuple(x) if isinstance(x, list) else x for name, x in given.items()}
    floats = {name: x for name, x in given.items() if isinstance(x, dict)}
    attributes |= decode_tensors(floats, pointer)
    names = tuple(value["inputs"]), tuple(value["outputs"])
    return Node(value["op"], value["domain"], *names, attributes)


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
