"""A model's graph: immutable, and without protobuf or JAX."""

import dataclasses
import functools
import graphlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dmlax.onnx.errors import ModelError, expect
from dmlax.onnx.identity import IdentityMap

SHORT_DOMAINS = {"ai.onnx": "", "": ""}
MICROSOFT = "com.microsoft"
OWN = "dmlax"  # the domain of operators that passes make
GIVEN = "operators"  # the domain of operators that a caller of `load` computes
MAXIMUM_DEPTH = 8  # subgraphs in subgraphs
CAPTURES = "captures"
"""The attribute that names the captured tensors of a node with subgraphs.

Captured tensors are the node's last inputs. The last parameters of its subgraphs have these names.
"""


@dataclass(frozen=True, eq=False)
class Node:
    """One call of an operator.

    Attributes:
      name: the file's name of the node, or its first output's.
      op: the operator's type, as ONNX spells it.
      domain: the operator's domain, "" for `ai.onnx`.
      version: the opset in which this form of the operator began.
      inputs: names of tensors, "" for an absent optional one.
      outputs: names of tensors, "" for an absent optional one.
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
    def captured(self) -> dict[str, str]:
        """The tensors that the subgraphs capture, by the subgraphs' names of them."""
        names = tuple(self.attributes.get(CAPTURES, ())) if self.graphs else ()
        return dict(zip(names, self.inputs[len(self.inputs) - len(names) :], strict=True))

    @property
    def operands(self) -> tuple[str, ...]:
        """The inputs without the captured tensors."""
        return self.inputs[: len(self.inputs) - len(self.captured)]

    def input(self, place: int) -> str:
        """The name of an input, "" for an absent one."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def is_a(self, op: str, domain: str = "") -> bool:
        """True for an operator of a domain."""
        return (self.op, self.domain) == (op, domain)

    def with_graphs(
        self, graphs: Mapping[str, "Graph"], captured: Mapping[str, str] | None = None
    ) -> "Node":
        """Returns a copy with other subgraphs, and with other captured tensors if there are any."""
        captured = self.captured if captured is None else captured
        attributes = {**self.attributes, **graphs, CAPTURES: tuple(captured)}
        return self.replace(inputs=(*self.operands, *captured.values()), attributes=attributes)

    def rename_inputs(self, names: Mapping[str, str]) -> "Node":
        """Returns a copy that reads tensors under other names."""
        return self.replace(inputs=tuple(names.get(name, name) for name in self.inputs))

    def become(
        self,
        op: str,
        domain: str,
        inputs: Iterable[str],
        attributes: Mapping[str, Any] | None = None,
        version: int = 1,
    ) -> "Node":
        """Returns another operator with the name and the outputs of this node."""
        return Node(self.name, op, domain, version, tuple(inputs), self.outputs, attributes or {})

    def replace(self, **changes: Any) -> "Node":
        """Returns a copy with other fields."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        return f"{self.type} {self.name!r}"


def operator_name(domain: str, op: str) -> str:
    """The name of an operator in `operators` of `load`."""
    return f"{domain}::{op}" if domain else op


@dataclass(frozen=True)
class TensorType:
    """A dtype and a shape, whose sizes are integers or names of dynamic dimensions."""

    dtype: np.dtype
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"


NO_RANK = ("no rank",)
"""The shape of an input whose rank a caller has to give."""
Constants = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which they can run, and the tensors that the file holds.

    Attributes:
      parameters: the tensors that a node passes to its subgraph, which has no `inputs`.
      types: the types that the file declares for tensors.
      defaults: the inputs that have a constant, which a call may replace.
      inner: the outputs that a caller asks for, and that are no outputs of the file.
      avals: the dtypes and shapes of all tensors, which `check` finds; None before, and of a
        subgraph that was computed with several shapes.
    """

    nodes: tuple[Node, ...]
    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    constants: Constants
    parameters: tuple[str, ...] = ()
    types: Mapping[str, TensorType] = field(default_factory=dict)
    defaults: Mapping[str, TensorType] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()
    avals: Mapping[str, Any] | None = None

    def replace(self, **changes: Any) -> "Graph":
        """Returns a copy with other fields."""
        return dataclasses.replace(self, **changes)

    def give_defaults(self, names: Iterable[str]) -> "Graph":
        """Returns a copy of which these constants are inputs."""
        given = {name: self.defaults[name] for name in names}
        constants, defaults = (
            {name: x for name, x in tensors.items() if name not in given}
            for tensors in (self.constants, self.defaults)
        )
        inputs = {**self.inputs, **given}
        return self.replace(inputs=inputs, constants=constants, defaults=defaults)

    @functools.cached_property
    def producers(self) -> dict[str, Node]:
        """The node that writes each tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @functools.cached_property
    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that read each tensor; one that reads it twice is listed twice."""
        consumers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in filter(None, node.inputs):
                consumers.setdefault(name, []).append(node)
        return consumers

    @functools.cached_property
    def single_use_producers(self) -> dict[str, Node]:
        """The node that writes each tensor that is read in one place and is no output."""
        names = {name for name, nodes in self.consumers.items() if len(nodes) == 1}
        names.difference_update(self.outputs)
        return {name: node for name, node in self.producers.items() if name in names}

    @functools.cached_property
    def read(self) -> frozenset[str]:
        """The names of the tensors that a node reads or that are outputs."""
        return frozenset({*self.consumers, *self.outputs})

    def are_equal(self, tensors: Iterable[str], others: Iterable[str]) -> bool:
        """True for pairs of the same tensor, or of constants that have the same single value."""
        return all(map(self._is_equal, tensors, others))

    def _is_equal(self, tensor: str, other: str) -> bool:
        x, y = self.constants.get(tensor), self.constants.get(other)
        if x is None or y is None:
            return bool(tensor) and tensor == other
        return x.dtype == y.dtype and x.size == y.size == 1 and bool(np.all(x.ravel() == y.ravel()))

    def has_one_scale(self, node: Node) -> bool:
        """True if the scale and the zero point of a (de)quantization are constant numbers."""
        parameters = [self.constants.get(name) for name in node.inputs[1:] if name]
        is_one = all(array is not None and array.size == 1 for array in parameters)
        return is_one and not node.attributes.get("block_size")

    @functools.cached_property
    def tensors(self) -> frozenset[str]:
        """The names of every tensor."""
        written = (name for node in self.nodes for name in node.outputs if name)
        return frozenset({*self.inputs, *self.parameters, *self.constants, *written})

    def all_nodes(self) -> Iterator[Node]:
        """The nodes and those of subgraphs."""
        for node in self.nodes:
            yield node
            for graph in node.graphs.values():
                yield from graph.all_nodes()

    def run_nodes(self) -> Iterator[Node]:
        """The nodes and those of subgraphs, except the branches of an If: one of them may run."""
        for node in self.nodes:
            yield node
            for graph in node.graphs.values() if node.op != "If" else ():
                yield from graph.run_nodes()

    def map_subgraphs(self, function: Callable[["Graph"], "Graph"]) -> "Graph":
        """Replaces the subgraphs of the nodes."""

        def replace(node: Node) -> Node:
            graphs = {name: function(graph) for name, graph in node.graphs.items()}
            return node.with_graphs(graphs) if graphs else node

        return self.replace(nodes=tuple(map(replace, self.nodes)))

    def map_graphs(self, function: Callable[["Graph"], "Graph"]) -> "Graph":
        """Replaces subgraphs, the inner ones first, and then the graph."""
        return function(self.map_subgraphs(lambda subgraph: subgraph.map_graphs(function)))

    def rewrite(self, replace: Callable[[Node], Node | Sequence[Node] | None]) -> "Graph":
        """Replaces nodes by one or several others, and drops nodes that no output needs then.

        Args:
          replace: returns the new nodes, or None to leave a node as it is.
        """
        nodes: list[Node] = []
        for node in self.nodes:
            replaced = replace(node)
            nodes += [replaced or node] if isinstance(replaced, Node | None) else replaced
        return self.replace(nodes=tuple(nodes)).prune()

    def constant_bytes(self) -> int:
        """The bytes of the constants, also of subgraphs; a shared array counts once."""
        graphs = (self, *(graph for node in self.all_nodes() for graph in node.graphs.values()))
        arrays = (x for graph in graphs for x in graph.constants.values())
        return sum(IdentityMap((x, x.nbytes) for x in arrays).values())

    def unused_name(self, wanted: str) -> str:
        """A name that no tensor has, for a tensor that a pass makes."""
        while wanted in self.tensors:
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
    """Sorts nodes topologically, unless they are in order.

    Raises:
      ModelError: a tensor is written twice, read and never written, or depends on itself.
    """
    written = {*graph.inputs, *graph.parameters, *graph.constants}
    producers: dict[str, int] = {}
    for index, node in enumerate(graph.nodes):
        for name in filter(None, node.outputs):
            is_new = name not in written and name not in producers
            expect(is_new, f"node {node.name!r} writes {name!r}, which exists already")
            producers[name] = index
    known = {"", *written, *producers}
    for node in graph.nodes:
        for name in node.inputs:
            expect(name in known, f"node {node.name!r} reads {name!r}, which does not exist")
    for name in graph.outputs:
        is_written = bool(name) and name in known
        expect(is_written, f"output {name!r} is written by no node")
    return graph.replace(nodes=_sorted(graph.nodes, producers))


def _sorted(nodes: tuple[Node, ...], producers: Mapping[str, int]) -> tuple[Node, ...]:
    sources = [[producers[name] for name in node.inputs if name in producers] for node in nodes]
    if all(max(before, default=-1) < index for index, before in enumerate(sources)):
        return nodes
    try:
        order = [*graphlib.TopologicalSorter(dict(enumerate(sources))).static_order()]
    except graphlib.CycleError as error:
        node = nodes[min(error.args[1])]
        raise ModelError(f"node {node.name!r} is in a cycle, or behind one") from None
    return tuple(nodes[index] for index in order)
