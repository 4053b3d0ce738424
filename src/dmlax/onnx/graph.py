"""A model's graph: immutable, and without protobuf or JAX."""

import dataclasses
import functools
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlax.onnx.errors import ModelError

SHORT_DOMAINS = {"ai.onnx": "", "": ""}
MICROSOFT = "com.microsoft"
OWN = "dmlax"  # of operators that passes make
GIVEN = "operators"  # of operators that a caller of `load` computes
MAXIMUM_DEPTH = 8  # of subgraphs in subgraphs
CAPTURES = "captures"
"""The attribute of a node that has subgraphs: the names in them of tensors from around them.

The node's last inputs are these tensors, and the last parameters of each subgraph have the names.
"""


@dataclass(frozen=True, eq=False)
class Node:
    """One call of an operator.

    Attributes:
      name: the node's own, or that of its first output.
      op: the operator's type, as ONNX spells it.
      domain: the operator's; "" is ONNX's own.
      version: the opset in which this form of the operator began.
      inputs: names of tensors; "" where an optional one is absent.
      outputs: likewise.
      attributes: Python values, NumPy arrays for tensors, and `Graph`s for subgraphs.
    """

    name: str
    op: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @property
    def type(self) -> str:
        """The operator's type with its domain, as messages show it."""
        if self.domain == GIVEN:
            return self.op.removeprefix("::")
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def graphs(self) -> dict[str, "Graph"]:
        """The subgraphs by attribute."""
        return {name: x for name, x in self.attributes.items() if isinstance(x, Graph)}

    @property
    def captures(self) -> tuple[str, ...]:
        """The subgraphs' names of the node's last inputs."""
        return tuple(self.attributes.get(CAPTURES, ())) if self.graphs else ()

    def with_graphs(
        self, graphs: Mapping[str, "Graph"], captured: Mapping[str, str] | None = None
    ) -> "Node":
        """Returns a copy with other subgraphs; captured: the tensors around them by their names."""
        names = self.inputs[: len(self.inputs) - len(self.captures)]
        if captured is None:
            captured = dict(zip(self.captures, self.inputs[len(names) :], strict=True))
        attributes = {**self.attributes, **graphs, CAPTURES: tuple(captured)}
        return self.replace(inputs=(*names, *captured.values()), attributes=attributes)

    def replace(self, **changes: Any) -> "Node":
        """Returns a copy with other fields."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        return f"{self.type} {self.name!r}"


def operator_name(domain: str, op: str) -> str:
    """An operator as `load` takes it in operators."""
    return f"{domain}::{op}" if domain else op


@dataclass(frozen=True)
class TensorType:
    """A dtype and a shape, whose sizes are integers or names of dynamic dimensions."""

    dtype: np.dtype
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which they can run, and the tensors that the file holds.

    Attributes:
      parameters: of a subgraph, which has no `inputs`: the tensors that its node passes it.
      types: those that the file declares, of any tensors.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    parameters: tuple[str, ...] = ()
    types: Mapping[str, TensorType] = field(default_factory=dict)

    def replace(self, **changes: Any) -> "Graph":
        """Returns a copy with other fields."""
        return dataclasses.replace(self, **changes)

    def producers(self) -> dict[str, Node]:
        """The node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor, once for each place where they do."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in filter(None, node.inputs):
                found.setdefault(name, []).append(node)
        return found

    def single_use_producers(self) -> dict[str, Node]:
        """The node that writes each tensor that is read in one place and is no output."""
        readers, producers = self.consumers(), self.producers()
        names = {name for name, nodes in readers.items() if len(nodes) == 1} - {*self.outputs}
        return {name: node for name, node in producers.items() if name in names}

    def are_equal(self, one: str, other: str) -> bool:
        """True for one tensor, or constants of the same single value."""
        x, y = self.constants.get(one), self.constants.get(other)
        if x is None or y is None:
            return one == other
        return x.dtype == y.dtype and x.size == y.size == 1 and bool(np.all(x.ravel() == y.ravel()))

    def has_one_scale(self, node: Node) -> bool:
        """True where all that a quantization or its inverse takes beside x is a constant value."""
        parameters = [self.constants.get(name) for name in node.inputs[1:] if name]
        return all(each is not None and each.size == 1 for each in parameters)

    def tensors(self) -> set[str]:
        """The names of every tensor."""
        return set(self._names)

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        written = (name for node in self.nodes for name in node.outputs if name)
        return frozenset({*self.inputs, *self.parameters, *self.constants, *written})

    def all_nodes(self) -> Iterator[Node]:
        """The nodes and those of subgraphs."""
        for node in self.nodes:
            yield node
            for graph in node.graphs.values():
                yield from graph.all_nodes()

    def map_nodes(self, function: Callable[[Node], Node]) -> "Graph":
        """Replaces the nodes of subgraphs, and then all others."""

        def replace(node: Node) -> Node:
            graphs = {name: graph.map_nodes(function) for name, graph in node.graphs.items()}
            return function(node.with_graphs(graphs) if graphs else node)

        return self.replace(nodes=tuple(map(replace, self.nodes)))

    def map_constants(
        self, function: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    ) -> "Graph":
        """Replaces the constants of the graph and of each subgraph."""

        def replace(node: Node) -> Node:
            graphs = {name: graph.map_constants(function) for name, graph in node.graphs.items()}
            return node.with_graphs(graphs) if graphs else node

        nodes = tuple(map(replace, self.nodes))
        return self.replace(nodes=nodes, constants=function(self.constants))

    def constant_bytes(self) -> int:
        """The bytes of the constants, also of subgraphs; an array that both have counts once."""
        arrays: dict[int, int] = {}

        def count(constants: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            arrays.update((id(array), array.nbytes) for array in constants.values())
            return constants

        self.map_constants(count)
        return sum(arrays.values())

    def unused_name(self, wanted: str) -> str:
        """A name for a tensor that a pass makes, which no tensor has."""
        while wanted in self._names:
            wanted += "'"
        return wanted

    def prune(self) -> "Graph":
        """Drops the nodes and the constants on which no output depends."""
        needed, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                kept.append(node)
                needed.update(node.inputs)
        constants = {name: array for name, array in self.constants.items() if name in needed}
        return self.replace(nodes=tuple(reversed(kept)), constants=constants)


def in_order(graph: Graph) -> Graph:
    """Puts nodes behind those whose outputs they read, and otherwise leaves their order.

    Raises:
      ModelError: a tensor is written twice, read and never written, or depends on itself.
    """
    written = {*graph.inputs, *graph.parameters, *graph.constants}
    producers: dict[str, int] = {}
    for index, node in enumerate(graph.nodes):
        for name in filter(None, node.outputs):
            if name in written or name in producers:
                raise ModelError(f"node {node.name!r} writes {name!r}, which exists already")
            producers[name] = index
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            if name not in written and name not in producers:
                raise ModelError(f"node {node.name!r} reads {name!r}, which does not exist")
    for name in graph.outputs:
        if name not in written and name not in producers:
            raise ModelError(f"output {name!r} is written by no node")
    return graph.replace(nodes=_sorted(graph.nodes, producers))


def _sorted(nodes: tuple[Node, ...], producers: Mapping[str, int]) -> tuple[Node, ...]:
    needs = [{producers[name] for name in node.inputs if name in producers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for index, each in enumerate(needs):
        for before in each:
            readers[before].append(index)
    ready = [index for index, each in enumerate(needs) if not each]  # a heap, as it ascends
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in readers[index]:
            needs[after].discard(index)
            if not needs[after]:
                heapq.heappush(ready, after)
    if len(order) != len(nodes):
        stuck = nodes[next(index for index, each in enumerate(needs) if each)]
        raise ModelError(f"node {stuck.name!r} is in a cycle, or behind one")
    return tuple(nodes[index] for index in order)


def rename_inputs(nodes: Iterable[Node], names: Mapping[str, str]) -> tuple[Node, ...]:
    """Has nodes read other tensors; a renamed name may be renamed again."""

    def resolve(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    return tuple(
        node.replace(inputs=tuple(map(resolve, node.inputs)))
        if any(name in names for name in node.inputs)
        else node
        for node in nodes
    )
