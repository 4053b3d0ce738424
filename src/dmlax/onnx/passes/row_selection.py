"""Computes one row of an image if nothing reads the other rows, as for a class token."""

import math
from typing import NamedTuple

import numpy as np

from dmlax.onnx.check import Avals
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node, rename_inputs

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
    row_count: int  # of an image


def take_rows_first(graph: Graph, avals: Avals) -> Graph:
    """Moves a Gather of one row of every image before the operators that compute all rows.

    Tensors have the shape (images, rows, columns), or (images * rows, columns) for products.
    """
    mover = _Mover(graph, avals)
    return mover.move() if mover.gathers else graph


class _Mover:
    """Finds the tensors of which one row is read, and computes that row."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.graph, self.avals = graph, avals
        self.gathers: dict[str, str] = {}  # from the output to the input
        self.rows: dict[str, _Row] = {}  # the row that all readers of a tensor read
        self.moved: set[str] = set()  # outputs of nodes that compute one row
        self.nodes: list[Node] = []
        self.constants = dict(graph.constants)
        self.taken: set[str] = set()
        self._find()

    def _find(self) -> None:
        reads: dict[str, list[_Row]] = {}
        for node in reversed(self.graph.nodes):
            output = node.outputs[0]
            rows, is_output = reads.get(output, []), output in self.graph.outputs
            if len({*rows}) == 1:
                self.rows[output] = rows[0]
            row, sources = self._gathered(node), node.inputs[:1]
            if row is not None and not is_output:
                self.gathers[output] = node.inputs[0]
            elif self._is_moved(node, rows) and not is_output:
                row, sources = rows[0], self._operands(node)
                self.moved.add(output)
            else:
                continue
            for name in sources:
                reads.setdefault(name, []).append(row)
        self.gathers = {y: x for y, x in self.gathers.items() if x in self.moved}

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

    def move(self) -> Graph:
        """The graph that computes one row where one is read."""
        for node in self.graph.nodes:
            output = node.outputs[0]
            if output in self.moved:
                self._compute_row(node)
            elif output not in self.gathers:
                self.nodes.append(node)
        names = {output: self._name(x) for output, x in self.gathers.items()}
        nodes = rename_inputs(self.nodes, names)
        return self.graph.replace(nodes=nodes, constants=self.constants).prune()

    def _compute_row(self, node: Node) -> None:
        row = self.rows[node.outputs[0]]
        names = {name: self._take(name, row) for name in self._operands(node)}
        moved = node.rename_inputs(names).replace(outputs=(self._name(node.outputs[0]),))
        if node.op == "Reshape" and len(self.avals[node.inputs[0]].shape) < 4:
            moved = moved.become("Identity", "", moved.inputs[:1], version=13)  # (images, columns)
        if node.op == "QLinearSelfAttention":
            index = int(self.graph.constants[row.place]) % row.row_count
            moved = moved.replace(attributes={**node.attributes, "row": index})
        self.nodes.append(moved)

    def _take(self, name: str, row: _Row) -> str:
        """The name of the row of a tensor, which is gathered if it is not computed."""
        taken = self._name(name)
        if name in self.moved or name in self.taken:
            return taken
        self.taken.add(name)
        source, shape = name, self.avals[name].shape
        if len(shape) == 2:
            source, sizes = (self.graph.unused_name(f"{name}@{x}") for x in ("rows", "sizes"))
            self.constants[sizes] = np.array([-1, row.row_count, shape[-1]], np.int64)
            self.nodes.append(Node(source, "Reshape", "", 14, (name, sizes), (source,), {}))
        inputs, attributes = (source, row.place), {"axis": 1}
        self.nodes.append(Node(taken, "Gather", "", 13, inputs, (taken,), attributes))
        return taken

    def _name(self, tensor: str) -> str:
        """The name of a tensor's row."""
        return self.graph.unused_name(f"{tensor}@row")
