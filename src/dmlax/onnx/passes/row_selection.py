"""Computes one row of an image if nothing reads the other rows, as for a class token."""

import math
from typing import NamedTuple

import numpy as np

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node

_ROW_OPERANDS: dict[tuple[str, str], tuple[int, ...]] = {
    ("QLinearAdd", MICROSOFT): (0, 3),
    ("QGemm", MICROSOFT): (0,),
    ("QGemm", OWN): (0,),
    ("ByteFunction", OWN): (0,),
    ("QuantizedLayerNormalization", OWN): (0,),
    ("DequantizeLinear", ""): (0,),
    ("LayerNormalization", ""): (0,),
    ("QLinearSelfAttention", OWN): (),  # it reads all rows
}
"""The operators that compute rows one by one, and the places of the operands that have rows."""


class _Row(NamedTuple):
    """The only row of each image that is read: `place` names a constant, a Gather's index."""

    place: str
    row_count: int  # the rows of an image


def take_rows_first(graph: Graph, avals: Avals) -> Graph:
    """Moves a Gather of one row of every image before the operators that compute all rows.

    Tensors have the shape (images, rows, columns), or (images * rows, columns) for products.
    """
    mover = _Mover(graph, avals)
    for node in reversed(graph.nodes):
        mover.add(node)
    return mover.graph_of_rows() if mover.has_moved else graph


class _Mover:
    """Computes the row that is read of a tensor, from the last node to the first."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.graph, self.avals = graph, avals
        self.reads: dict[str, list[_Row]] = {}  # the rows of tensors that nodes read
        self.nodes: list[Node] = []  # the last first
        self.names: dict[str, str] = {}  # the names of rows, by the outputs of Gathers
        self.constants = dict(graph.constants)
        self.has_moved = False

    def add(self, node: Node) -> None:
        """Adds a node, behind which all nodes have been added."""
        output, row = node.outputs[0], self._gathered(node)
        rows = self.reads.get(output, [])
        if row is not None and output not in self.graph.outputs:
            self.names[output] = self._read(node.inputs[0], row)
        elif self._is_moved(node, rows):
            self.nodes.append(self._compute_row(node, rows[0]))
            self.has_moved = True
        else:
            for name in node.outputs:
                self._gather_rows(name)
            self.nodes.append(node)

    def graph_of_rows(self) -> Graph:
        """The graph that computes one row where one is read."""
        for name in reversed(self.reads):
            if name not in self.graph.producers:
                self._gather_rows(name)
        nodes = tuple(node.rename_inputs(self.names) for node in reversed(self.nodes))
        return self.graph.replace(nodes=nodes, constants=self.constants).prune()

    def _gathered(self, node: Node) -> _Row | None:
        """The row that a Gather takes."""
        if not node.is_a("Gather") or node.attributes.get("axis", 0) != 1:
            return None
        aval, index = self.avals.get(node.inputs[0]), self.graph.constants.get(node.inputs[1])
        if aval is None or index is None or index.shape or len(aval.shape) != 3:
            return None
        count = aval.shape[1]
        fits = isinstance(count, int) and -count <= index < count
        return _Row(node.inputs[1], count) if fits else None

    def _operands(self, node: Node) -> tuple[str, ...]:
        """The tensors of which a node reads the rows that it makes."""
        return tuple(node.inputs[i] for i in _ROW_OPERANDS.get((node.op, node.domain), (0,)))

    def _is_moved(self, node: Node, rows: list[_Row]) -> bool:
        """True for a node all whose readers read one row, which it makes of its operands' row."""
        readers = self.graph.consumers.get(node.outputs[0], ())
        if len({*rows}) != 1 or len(rows) != len(readers) or len(node.outputs) != 1:
            return False
        names = (node.outputs[0], *self._operands(node))
        if names[0] in self.graph.outputs:
            return False
        columns = [self._columns(name, rows[0]) for name in names]
        if None in columns or any(name in self.graph.constants for name in names):
            return False
        if node.is_a("Reshape"):
            return columns[0] == columns[1] and len(self.avals[names[0]].shape) < 4
        return len({self.avals[name].shape for name in names[1:]}) < 2 and self._fits(node)

    def _fits(self, node: Node) -> bool:
        """True for an operator whose other operands and attributes are the same for all rows."""
        if (node.op, node.domain) not in _ROW_OPERANDS or node.attributes.get("transA"):
            return False
        if node.op == "DequantizeLinear":
            return self.graph.has_one_scale(node)
        if node.op == "QLinearSelfAttention":
            return bool(node.attributes["heads_last"])
        return node.op != "LayerNormalization" or node.attributes.get("axis", -1) == -1

    def _columns(self, name: str, row: _Row) -> int | None:
        """The columns of a tensor that has rows of images, those of all heads; else None."""
        aval = self.avals.get(name)
        if aval is None or len(aval.shape) not in (2, 3, 4):
            return None
        first, *columns = aval.shape[1:] if len(aval.shape) > 2 else (row.row_count, aval.shape[-1])
        known = all(isinstance(size, int) for size in columns)
        return math.prod(columns) if known and first == row.row_count else None

    def _compute_row(self, node: Node, row: _Row) -> Node:
        """The node that computes a row of a node's output."""
        names = {name: self._read(name, row) for name in self._operands(node)}
        output = self._name(node.outputs[0], row)
        moved = node.rename_inputs(names).replace(outputs=(output,))
        if node.op == "Reshape" and len(self.avals[node.inputs[0]].shape) < 4:
            return moved.become("Identity", "", moved.inputs[:1], version=13)  # (images, columns)
        if node.op == "QLinearSelfAttention":
            index = int(self.graph.constants[row.place]) % row.row_count
            return moved.replace(attributes={**node.attributes, "row": index})
        return moved

    def _read(self, name: str, row: _Row) -> str:
        """Notes that a node reads a row of a tensor; returns the row's name."""
        self.reads.setdefault(name, []).append(row)
        return self._name(name, row)

    def _name(self, tensor: str, row: _Row) -> str:
        """The name of a tensor's row."""
        number = [*dict.fromkeys(self.reads[tensor])].index(row)
        return self.graph.unused_name(f"{tensor}@row{number or ''}")

    def _gather_rows(self, name: str) -> None:
        """Gathers the rows that nodes read of a tensor."""
        for row in dict.fromkeys(self.reads.get(name, ())):
            source, shape, taken = name, self.avals[name].shape, self._name(name, row)
            if len(shape) == 2:
                source, sizes = (self.graph.unused_name(f"{name}@{x}") for x in ("rows", "sizes"))
            inputs, attributes = (source, row.place), {"axis": 1}
            self.nodes.append(Node(taken, "Gather", "", 13, inputs, (taken,), attributes))
            if len(shape) == 2:
                self.constants[sizes] = np.array([-1, row.row_count, shape[-1]], np.int64)
                self.nodes.append(Node(source, "Reshape", "", 14, (name, sizes), (source,), {}))
