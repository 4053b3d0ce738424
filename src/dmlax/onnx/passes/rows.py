"""Computes one row of each image where nothing reads the others, as of a class token."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dmlax._core.arguments import Aval
from dmlax.onnx.graph import MICROSOFT, OWN, Graph, Node, rename_inputs

Avals = Mapping[str, Aval]
_TERMS = (0, 3)  # the places of a QLinearAdd's operands
_OF_ROWS = {  # computes each row by itself, and the places of its operands
    ("QLinearAdd", MICROSOFT): _TERMS,
    ("QGemm", MICROSOFT): (0,),
    ("QGemm", OWN): (0,),
    ("ByteFunction", OWN): (0,),
    ("QuantizedLayerNormalization", OWN): (0,),
    ("DequantizeLinear", ""): (0,),
    ("LayerNormalization", ""): (0,),
    ("QLinearSelfAttention", OWN): (),  # it reads all rows
}


class _Row(NamedTuple):
    """The one row of each image that is read."""

    place: str  # the constant that a Gather has
    rows: int  # of an image


def take_rows_first(graph: Graph, avals: Avals) -> Graph:
    """Moves each Gather of one row of every image before the operators that compute all rows.

    Args:
      graph: tensors that it gives have all rows.
      avals: of every tensor: (images, rows, columns), or (images * rows, columns) of products.
    """
    mover = _Mover(graph, avals)
    return mover.move() if mover.gathers else graph


class _Mover:
    """Finds the tensors of which one row is read, and computes that."""

    def __init__(self, graph: Graph, avals: Avals) -> None:
        self.graph, self.avals = graph, avals
        self.gathers: dict[str, str] = {}  # from the output to the input
        self.wanted: dict[str, _Row] = {}  # what all who read a tensor want of it
        self.moved: set[str] = set()  # outputs of nodes that compute one row
        self.nodes: list[Node] = []
        self.constants = dict(graph.constants)
        self.taken: set[str] = set()
        self._find()

    def _find(self) -> None:
        readers = self.graph.consumers()
        wishes: dict[str, list[_Row]] = {}
        for node in reversed(self.graph.nodes):
            output = node.outputs[0]
            found = wishes.get(output, [])
            alone = output not in self.graph.outputs and len(found) == len(readers.get(output, ()))
            if (row := self._row_of(node)) is not None and output not in self.graph.outputs:
                self.gathers[output] = node.inputs[0]
                wishes.setdefault(node.inputs[0], []).append(row)
            elif found and alone and len({*found}) == 1 and self._is_of_rows(node, found[0]):
                self.moved.add(output)
                for name in self._operands(node):
                    wishes.setdefault(name, []).append(found[0])
            if len({*found}) == 1:
                self.wanted[output] = found[0]
        self.gathers = {y: x for y, x in self.gathers.items() if x in self.moved}

    def _row_of(self, node: Node) -> _Row | None:
        """The row that a Gather takes."""
        if (node.op, node.domain) != ("Gather", "") or node.attributes.get("axis", 0) != 1:
            return None
        aval, index = self.avals.get(node.inputs[0]), self.graph.constants.get(node.inputs[1])
        if aval is None or index is None or index.shape or len(aval.shape) != 3:
            return None
        rows = aval.shape[1]
        fits = isinstance(rows, int) and -rows <= index < rows
        return _Row(node.inputs[1], rows) if fits else None

    def _operands(self, node: Node) -> tuple[str, ...]:
        """The tensors of which a node reads the same rows as it makes."""
        return tuple(node.inputs[i] for i in _OF_ROWS.get((node.op, node.domain), (0,)))

    def _is_of_rows(self, node: Node, row: _Row) -> bool:
        """True for a node that makes each row of the same row of its operands."""
        if len(node.outputs) != 1:
            return False
        names = (node.outputs[0], *self._operands(node))
        shapes = [self._rows_and_columns(name, row) for name in names]
        if None in shapes or any(name in self.graph.constants for name in names):
            return False
        if (node.op, node.domain) == ("Reshape", ""):
            return shapes[0] == shapes[1] and len(self.avals[names[0]].shape) < 4
        same = all(self.avals[name].shape == self.avals[names[1]].shape for name in names[1:])
        return same and self._fits(node)

    def _fits(self, node: Node) -> bool:
        """True for an operator whose other operands and attributes are the same for all rows."""
        if (node.op, node.domain) not in _OF_ROWS or node.attributes.get("transA"):
            return False
        if node.op == "DequantizeLinear":
            return self.graph.has_one_scale(node)
        if node.op == "QLinearSelfAttention":
            return bool(node.attributes["heads_last"])
        return node.op != "LayerNormalization" or node.attributes.get("axis", -1) == -1

    def _rows_and_columns(self, name: str, row: _Row) -> int | None:
        """The columns of a tensor that has rows of images, those of all heads; else None."""
        aval = self.avals.get(name)
        if aval is None or len(aval.shape) not in (2, 3, 4):
            return None
        first, *columns = aval.shape[1:] if len(aval.shape) > 2 else (row.rows, aval.shape[-1])
        known = all(isinstance(size, int) for size in columns)
        return math.prod(columns) if known and first == row.rows else None

    def move(self) -> Graph:
        """The graph that computes one row where one is read."""
        for node in self.graph.nodes:
            (output, *_) = node.outputs
            if output in self.moved:
                self._compute_row(node)
            if output not in self.gathers and output not in self.moved:
                self.nodes.append(node)
        names = {output: self._name(x) for output, x in self.gathers.items()}
        nodes = rename_inputs(self.nodes, names)
        return self.graph.replace(nodes=nodes, constants=self.constants).prune()

    def _compute_row(self, node: Node) -> None:
        (output,), places = node.outputs, self._operands(node)
        row = self.wanted[output]
        names = {name: self._take(name, row) for name in places}
        inputs = tuple(names.get(name, name) for name in node.inputs)
        if node.op == "Reshape" and len(self.avals[node.inputs[0]].shape) < 4:
            # (images, columns) before and after
            node = node.replace(op="Identity", version=13, attributes={})
            inputs = inputs[:1]
        if node.op == "QLinearSelfAttention":
            index = int(self.graph.constants[row.place]) % row.rows
            node = node.replace(attributes={**node.attributes, "row": index})
        self.nodes.append(node.replace(inputs=inputs, outputs=(self._name(output),)))

    def _take(self, name: str, row: _Row) -> str:
        """The name of the row of a tensor, which is taken if it is not computed."""
        taken = self._name(name)
        if name in self.moved or name in self.taken:
            return taken
        self.taken.add(name)
        source, columns = name, self.avals[name].shape[-1]
        if len(self.avals[name].shape) == 2:
            source, sizes = (self.graph.unused_name(f"{name}@{x}") for x in ("rows", "sizes"))
            self.constants[sizes] = np.array([-1, row.rows, columns], np.int64)
            self.nodes.append(Node(source, "Reshape", "", 14, (name, sizes), (source,), {}))
        attributes = {"axis": 1}
        self.nodes.append(Node(taken, "Gather", "", 13, (source, row.place), (taken,), attributes))
        return taken

    def _name(self, tensor: str) -> str:
        """The name of a tensor's row."""
        return self.graph.unused_name(f"{tensor}@row")
