"""Reads a `.tflite` file into a graph: constants folded, variables as inputs and outputs."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dmlax._core.byte_packing import unpack_bits
from dmlax.errors import UnsupportedError
from dmlax.litert.flatbuffer import File, Table
from dmlax.litert.flexbuffer import read_map
from dmlax.litert.schema import (
    BUILTINS,
    CUSTOM_OPTIONS,
    DTYPES,
    IDENTIFIER,
    OPTIONS,
    PLACEHOLDER,
    RESOURCE,
    type_name,
)
from dmlax.onnx.budget import MAXIMUM_RANK, Budget
from dmlax.onnx.errors import expect
from dmlax.onnx.graph import CAPTURES, MAXIMUM_DEPTH, Graph, Node, TensorType, in_order

DOMAIN, CUSTOM = "litert", "custom"
NEXT = ":next"
"""The end of the name of an output that is the next value of a variable."""
WORDS = ":words"
_MOST_ELEMENTS = 1 << 48  # of a tensor, sizes of 0 counted as 1: NumPy makes no larger ones
_MUTATED = {"UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19), "SVDF": (4,)}
_BRANCHES = {
    "IF": {"then_branch": "then_graph", "else_branch": "else_graph"},
    "WHILE": {"condition": "condition_graph", "body": "body_graph"},
}
WITH_BIAS = {"CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2, "TRANSPOSE_CONV": 3}


class State(NamedTuple):
    """A variable of a file: its type, and its first value."""

    type: TensorType
    first: np.ndarray


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the file declares it; `dtype` is None for one of resources or strings."""

    name: str
    number: int
    shape: tuple[int, ...]
    buffer: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int
    is_variable: bool
    sparsity: Table | None
    place: str

    @property
    def type(self) -> TensorType:
        """The dtype and the shape."""
        if self.number not in DTYPES:
            raise UnsupportedError(f"{self.place} has the dtype {type_name(self.number)}")
        return TensorType(DTYPES[self.number], self.shape)


@dataclass
class _Body:
    """A subgraph while it is translated.

    Attributes:
      current: the tensors that hold the variables' values now.
      first: the tensors by which the variables' values come in.
    """

    tensors: list[TensorInfo]
    taken: set[str]
    handles: dict[int, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def unused(self, wanted: str) -> str:
        """A name that no tensor has."""
        while wanted in self.taken:
            wanted += "'"
        self.taken.add(wanted)
        return wanted


def read(data: bytes, resolver: str, given: Collection[str] = ()) -> tuple[Graph, dict[str, State]]:
    """Reads the bytes of a file; custom operators that are given stay so.

    Returns:
      The graph of the first subgraph, whose last inputs and outputs are the variables, and the
      variables by name.

    Raises:
      ModelError: the file is malformed.
      UnsupportedError: it has data outside of the file, or an input that is no number.
    """
    return _Reader(data, resolver, given).read()


class _Reader:
    def __init__(self, data: bytes, resolver: str, given: Collection[str]) -> None:
        self.data, self.resolver, self.given = data, resolver, given
        self.budget = Budget(len(data))
        model = File(data, self.budget).root(IDENTIFIER)
        version = model.number(0, "I")
        expect(version == 3, f"the file has the schema version {version}, expected 3")
        self.codes = [self._code(table) for table in model.tables(1, "operator code")]
        self.subgraphs = list(model.tables(2, "subgraph"))
        self.buffers = list(model.tables(4, "buffer"))
        expect(bool(self.subgraphs), "the file has no subgraph")
        self.infos: dict[int, list[TensorInfo]] = {}
        self.initial: dict[str, np.ndarray] = {}
        self.types: dict[str, TensorType] = {}
        self.arrays: dict[tuple[Any, ...], np.ndarray] = {}

    def _code(self, table: Table) -> str:
        """The operator's name; those of the caller begin with `custom::`."""
        number = max(table.number(0, "b"), table.number(3, "i"))
        if number == BUILTINS.index("CUSTOM"):
            name = table.text(1, "custom code")
            key = f"{CUSTOM}::{name}"
            return name if name in CUSTOM_OPTIONS and key not in self.given else key
        is_named = 0 <= number < len(BUILTINS) and number != PLACEHOLDER
        return BUILTINS[number] if is_named else f"BUILTIN_{number}"

    def read(self) -> tuple[Graph, dict[str, State]]:
        table = self.subgraphs[0]
        body = self._translate(0, {}, 0)
        given = self._indices(table, 1, "inputs", body)
        inputs = {body.tensors[i].name: body.tensors[i].type for i in given}
        expect(len(inputs) == len(given), "an input is listed twice")
        outputs = [body.tensors[i].name for i in self._indices(table, 2, "outputs", body)]
        states = {}
        for key, name in body.first.items():
            wanted = self.types[key]
            first = self.initial.get(key, np.zeros(_sizes(wanted), wanted.dtype))
            states[name] = State(TensorType(first.dtype, first.shape), first)
            following = body.unused(name + NEXT)
            body.nodes.append(self._identity(body.current[key], following))
            outputs.append(following)
        types = {x.name: x.type for x in body.tensors if x.number in DTYPES}
        graph = Graph(
            tuple(body.nodes),
            {**inputs, **{name: state.type for name, state in states.items()}},
            tuple(dict.fromkeys(outputs)),
            body.constants,
            types=types,
        )
        return in_order(graph), states

    def _indices(self, table: Table, slot: int, name: str, body: _Body) -> tuple[int, ...]:
        """The numbers of tensors that a field lists."""
        numbers = table.numbers(slot, "int32", name)
        for number in numbers:
            is_index = 0 <= number < len(body.tensors) or (number == -1 and name == "operands")
            text = f"{table.place}: {name} has the tensor {number} of {len(body.tensors)}"
            expect(is_index, text)
        return numbers

    def _tensors(self, index: int) -> list[TensorInfo]:
        """The tensors of a subgraph, whose names are made different."""
        if index not in self.infos:
            tables = list(self.subgraphs[index].tables(0, "tensor"))
            names = unique_names([table.text(3, "name") for table in tables])
            self.infos[index] = [*map(self._tensor, tables, names)]
        return self.infos[index]

    def _tensor(self, table: Table, name: str) -> TensorInfo:
        place = f"{table.place} ({name!r})"
        shape = table.numbers(0, "int32", "shape")
        is_shape = len(shape) <= MAXIMUM_RANK and all(size >= 0 for size in shape)
        is_shape = is_shape and math.prod(max(size, 1) for size in shape) < _MOST_ELEMENTS
        expect(is_shape, f"{place} has the shape {list(shape[:32])}")
        buffer = table.number(2, "I")
        expect(buffer < max(len(self.buffers), 1), f"{place} has the buffer {buffer}")
        if table.number(10, "I"):
            raise UnsupportedError(f"{place} is in an external buffer")
        scales: tuple[float, ...] = ()
        zeros: tuple[int, ...] = ()
        axis = 0
        if (parameters := table.table(4, "quantization")) is not None:
            scales = parameters.numbers(2, "float32", "scale")
            zeros = parameters.numbers(3, "int64", "zero point")
            axis = parameters.number(6, "i")
            is_one = len(zeros) in (0, 1, len(scales))
            expect(is_one, f"{place} has {len(scales)} scales and {len(zeros)} zero points")
            is_scale = all(math.isfinite(scale) and scale >= 0 for scale in scales)
            expect(is_scale, f"{place} has a scale that is negative or no number")
            is_axis = len(scales) <= 1 or (0 <= axis < len(shape) and shape[axis] == len(scales))
            expect(
                is_axis, f"{place} has {len(scales)} scales, which its axis {axis} does not have"
            )
            zeros = zeros or (0,) * len(scales)
            zeros = zeros * len(scales) if len(zeros) == 1 else zeros
        is_variable = table.number(5, "?")
        sparsity = table.table(6, "sparsity")
        number = table.number(1, "b")
        return TensorInfo(
            name, number, shape, buffer, scales, zeros, axis, is_variable, sparsity, place
        )

    def _constant(self, info: TensorInfo) -> np.ndarray | None:
        """The value of a tensor that the file holds, None of another."""
        if not self.buffers or info.is_variable or info.number not in DTYPES:
            return None
        key = (info.buffer, info.number, info.shape, info.sparsity and info.sparsity.position)
        if key not in self.arrays:
            array = self._read(info)
            if array is None:
                return None
            self.arrays[key] = array
        return self.arrays[key]

    def _read(self, info: TensorInfo) -> np.ndarray | None:
        table = self.buffers[info.buffer]
        data = table.bytes(0, "data")
        offset, size = table.number(1, "Q"), table.number(2, "Q")
        if offset > 1:  # the buffer follows the tables of a large file
            table.file.expect_inside(offset, size, table.place)
            data = memoryview(self.data)[offset : offset + size]
        wanted, shape = info.type, info.shape
        count = math.prod(shape)
        if not data:
            return np.zeros(shape, wanted.dtype) if not count else None
        if info.sparsity is not None:
            return self._densify(info, np.frombuffer(data, wanted.dtype))
        if wanted.dtype.name == "int4":  # the low half of a byte is first
            needed = (count + 1) // 2
            expect(len(data) == needed, f"{info.place} has {len(data)} bytes, expected {needed}")
            self.budget.spend_on(info.place, 2 * count + 2)
            halves = unpack_bits(np.frombuffer(data, np.uint8), 4, count, is_signed=True)
            return halves.reshape(shape)
        needed = count * wanted.dtype.itemsize
        expect(len(data) == needed, f"{info.place} has {len(data)} bytes, expected {needed}")
        return np.frombuffer(data, wanted.dtype).reshape(shape)

    def _densify(self, info: TensorInfo, values: np.ndarray) -> np.ndarray:
        """The dense array of a sparse constant, whose levels are dimensions and parts of blocks."""
        assert info.sparsity is not None
        table, rank = info.sparsity, len(info.shape)
        order = table.numbers(0, "int32", "traversal order")
        blocks = table.numbers(1, "int32", "block map")
        levels = list(table.tables(2, "level"))
        is_order = sorted(order) == [*range(rank + len(blocks))] and len(levels) == len(order)
        is_order = is_order and all(0 <= axis < rank for axis in blocks)
        expect(is_order, f"{table.place} has the order {order[:32]} of {len(levels)} levels")
        nodes, coordinates = np.zeros(1, np.int64), list[np.ndarray]()
        sizes = [1] * (rank + len(blocks))
        for axis, level in zip(order, levels, strict=True):
            if level.number(0, "b") == 0:
                size = sizes[axis] = max(level.number(1, "i"), 0)
                self.budget.spend_on(level.place, 8 * len(nodes) * size * (len(coordinates) + 2))
                repeats = np.full(len(nodes), size)
                places = np.tile(np.arange(size), len(nodes))
            else:
                segments, indices = _level(level, 2), _level(level, 4)
                starts, ends = segments[:-1], segments[1:]
                fits = len(starts) == len(nodes) and bool((ends >= starts).all())
                fits = fits and segments.tolist()[:1] == [0] and segments[-1] == len(indices)
                expect(bool(fits), f"{level.place} has segments that do not fit")
                self.budget.spend_on(level.place, 8 * len(indices) * (len(coordinates) + 2))
                repeats, places = ends - starts, indices
            parents = np.repeat(np.arange(len(nodes)), repeats)
            coordinates = [x[parents] for x in coordinates] + [places]
            nodes = parents
        by_axis = dict(zip(order, coordinates, strict=True))
        for part, axis in enumerate(blocks):
            by_axis[axis] = by_axis[axis] * sizes[rank + part] + by_axis[rank + part]
        is_whole = len(nodes) == len(values)
        is_inside = all(
            not len(by_axis[i]) or 0 <= by_axis[i].min() <= by_axis[i].max() < info.shape[i]
            for i in range(rank)
        )
        expect(is_whole and is_inside, f"{table.place} does not fit {len(values)} values")
        self.budget.spend_on(info.place, math.prod(info.shape) * values.itemsize)
        dense = np.zeros(info.shape, values.dtype)
        dense[tuple(by_axis[i] for i in range(rank))] = values
        return dense

    def _translate(self, index: int, handles: Mapping[int, str], depth: int) -> _Body:
        """Translates the operators of a subgraph."""
        expect(depth <= MAXIMUM_DEPTH, f"subgraphs are nested deeper than {MAXIMUM_DEPTH}")
        expect(0 <= index < len(self.subgraphs), f"subgraph {index} does not exist")
        table, tensors = self.subgraphs[index], self._tensors(index)
        body = _Body(tensors, {x.name for x in tensors}, dict(handles))
        given = {*self._indices(table, 1, "inputs", body)}
        operators = list(table.tables(3, "operator"))
        written = {i for each in operators for i in self._indices(each, 2, "results", body)}
        for i, info in enumerate(tensors):
            array = None if i in given else self._constant(info)
            if array is not None and (array.size or i not in written):
                body.constants[info.name] = array
        for operator in operators:
            code = operator.number(0, "I")
            expect(code < len(self.codes), f"{operator.place} has the operator code {code}")
            self._operator(body, operator, self.codes[code], depth)
        return body

    def _operator(self, body: _Body, table: Table, op: str, depth: int) -> None:
        """Adds the nodes of an operator."""
        tensors = body.tensors
        inputs = self._indices(table, 1, "operands", body)
        outputs = self._indices(table, 2, "results", body)
        options = table.table(4, "options")
        attributes = {each.name: each.read(options) for each in OPTIONS.get(op, ())}
        if op in CUSTOM_OPTIONS:
            place = f"{table.place}: options"
            numbers = read_map(bytes(table.bytes(5, "options")), place)
            expect(all(map(math.isfinite, numbers.values())), f"{place} have no finite numbers")
            attributes = {
                each.name: each.type(numbers.get(each.name, each.default))
                for each in CUSTOM_OPTIONS[op]
            }
        handles = [body.handles.get(i, "") for i in inputs]
        if op in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"):
            counts = (len(inputs), len(outputs))
            wanted = {"VAR_HANDLE": (0, 1), "READ_VARIABLE": (1, 1), "ASSIGN_VARIABLE": (2, 0)}[op]
            expect(counts == wanted, f"{table.place} has {counts} operands and results")
        if op == "CALL_ONCE":
            self._call_once(attributes["init_graph"], depth)
        elif op == "VAR_HANDLE":
            body.handles[outputs[0]] = f"{attributes['container']}{attributes['shared_name']}"
        elif op == "READ_VARIABLE":
            value = tensors[outputs[0]]
            source = self._variable(body, handles[0], value.type, table.place)
            body.nodes.append(self._identity(source, value.name))
        elif op == "ASSIGN_VARIABLE":
            value = tensors[inputs[1]]
            self._variable(body, handles[0], value.type, table.place)
            body.current[handles[0]] = value.name
        elif op in ("IF", "WHILE"):
            self._control(body, table, op, (inputs, outputs), attributes, depth)
        elif not self._fold(body, op, inputs, outputs):
            self._node(body, table, op, inputs, outputs, attributes)

    def _variable(self, body: _Body, key: str, type_: TensorType, place: str) -> str:
        """The tensor that holds a variable's value now."""
        expect(bool(key), f"{place} has no handle of a variable")
        self.types.setdefault(key, type_)
        if key not in body.current:
            name = key if key not in {x.name for x in body.tensors if x.number != RESOURCE} else ""
            body.first[key] = body.current[key] = name or body.unused(key + ":variable")
        return body.current[key]

    def _call_once(self, index: int, depth: int) -> None:
        """Notes the first values that a subgraph assigns to variables."""
        body = self._translate(index, {}, depth + 1)
        for key, name in body.current.items():
            if name not in body.constants:
                raise UnsupportedError(f"subgraph {index} computes the first value of {key!r}")
            self.initial[key] = body.constants[name]

    def _fold(self, body: _Body, op: str, inputs: Sequence[int], outputs: Sequence[int]) -> bool:
        """Computes dequantized and dense constants; returns False for other operators."""
        if op not in ("DEQUANTIZE", "DENSIFY") or len(inputs) != 1 or len(outputs) != 1:
            return False
        source, target = body.tensors[inputs[0]], body.tensors[outputs[0]]
        array = body.constants.get(source.name)
        if array is None:
            return False
        if op == "DEQUANTIZE":
            if target.number != 0:
                return False
            self.budget.spend_on(target.place, 4 * array.size)
            if array.dtype.kind in "iu":
                shape = [1] * array.ndim
                if len(source.scales) > 1:
                    shape[source.axis] = -1
                scale = np.array(source.scales or (1,), np.float32).reshape(shape)
                zero = np.array(source.zero_points or (0,), np.float32).reshape(shape)
                array = (array.astype(np.float32) - zero) * scale
            array = array.astype(np.float32)
        body.constants[target.name] = array
        return True

    def _control(
        self,
        body: _Body,
        table: Table,
        op: str,
        operands: tuple[Sequence[int], Sequence[int]],
        attributes: Mapping[str, Any],
        depth: int,
    ) -> None:
        """Adds an ONNX If, or a WHILE; subgraphs take and return the variables that they use."""
        inputs, outputs = operands
        is_loop = op == "WHILE"
        expect(len(inputs) > 0, f"{table.place} has no operand")
        expect(not is_loop or len(outputs) == len(inputs), f"{table.place} returns no state")
        passed_on = inputs if is_loop else inputs[1:]
        handles = {place: body.handles.get(i, "") for place, i in enumerate(passed_on)}
        arguments = [i for place, i in enumerate(passed_on) if not handles[place]]
        names = [f"argument {i}" for i in range(len(arguments))]
        branches = {}
        for branch, name in _BRANCHES[op].items():
            index = attributes[name]
            expect(0 <= index < len(self.subgraphs), f"{table.place}: subgraph {index} is missing")
            subgraph = self.subgraphs[index]
            given = subgraph.numbers(1, "int32", "inputs")
            text = f"{subgraph.place} has {len(given)} inputs, expected {len(passed_on)}"
            expect(len(given) == len(passed_on), text)
            passed = {given[place]: key for place, key in handles.items() if key}
            inner = self._translate(index, passed, depth + 1)
            own = [i for place, i in enumerate(given) if not handles[place]]
            branches[branch] = inner, own, self._indices(subgraph, 2, "outputs", inner)
        keys = list(dict.fromkeys(key for inner, *_ in branches.values() for key in inner.first))
        graphs = {}
        for branch, (inner, own, results) in branches.items():
            variables = [inner.first.get(key, f"{key}:variable") for key in keys]
            first = [inner.tensors[i].name for i in own] + variables
            renamed = dict(zip(first, [*names, *(f"variable {key}" for key in keys)], strict=True))
            last = [inner.tensors[i].name for i in results if i not in inner.handles]
            if branch != "condition":
                last += [inner.current.get(key, x) for key, x in zip(keys, variables, strict=True)]
            nodes = [node.rename_inputs(renamed) for node in inner.nodes]
            outs = []
            for i, name in enumerate(last):  # an output may be a parameter or a constant
                nodes.append(self._identity(renamed.get(name, name), f"result {i}"))
                outs.append(f"result {i}")
            graphs[branch] = in_order(
                Graph(tuple(nodes), {}, tuple(outs), inner.constants, tuple(renamed.values()))
            )
        following = [body.unused(f"{key}:{len(body.nodes)}") for key in keys]
        values = [self._variable(body, key, self.types[key], table.place) for key in keys]
        captured = [*(body.tensors[i].name for i in arguments), *values]
        for i, place in zip(outputs, passed_on, strict=True) if is_loop else ():
            if place in body.handles:
                body.handles[i] = body.handles[place]
        named = [body.tensors[i].name for i in outputs if i not in body.handles]
        written, name = (*named, *following), self._name(table, (*named, *following))
        if is_loop:
            node = Node(name, op, DOMAIN, 1, tuple(captured), written, {**graphs, CAPTURES: ()})
        else:
            captures = (*names, *(f"variable {key}" for key in keys))
            captured.insert(0, body.tensors[inputs[0]].name)
            described = {**graphs, CAPTURES: captures}
            node = Node(name, "If", "", 13, tuple(captured), written, described)
        body.nodes.append(node)
        body.current |= dict(zip(keys, following, strict=True))

    @staticmethod
    def _name(table: Table, outputs: Sequence[str]) -> str:
        return outputs[0] if outputs else table.place

    @staticmethod
    def _identity(source: str, target: str) -> Node:
        return Node(target, "IDENTITY", DOMAIN, 1, (source,), (target,), {})

    def _node(
        self,
        body: _Body,
        table: Table,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        attributes: Mapping[str, Any],
    ) -> None:
        """Adds a node whose attributes describe its tensors."""
        infos = [body.tensors[i] if i >= 0 else None for i in (*inputs, *outputs)]
        names = [x.name if x else "" for x in infos]
        operands, results = names[: len(inputs)], names[len(inputs) :]
        custom = op.startswith(f"{CUSTOM}::")
        if custom:
            options = np.frombuffer(bytes(table.bytes(5, "options")), np.uint8)
            described: dict[str, Any] = {"custom_options": options}
        else:
            inner = self._indices(table, 8, "intermediates", body)
            infos += [body.tensors[i] for i in inner]
            described = {**describe(infos), **attributes, "resolver": self.resolver}
            if op in ("CONV_2D", "DEPTHWISE_CONV_2D") and len(inputs) > 1:
                described["groups"] = _groups(infos[0], infos[1], op == "DEPTHWISE_CONV_2D")
            if op == "RESHAPE" and len(inputs) == 1 and outputs:
                described["new_shape"] = body.tensors[outputs[0]].shape
            if not any(x and x.number not in DTYPES for x in infos):
                self._replace_constants(body, op, operands)
            for place in _MUTATED.get(op, ()):
                info = infos[place] if place < len(inputs) else None
                if info is not None and info.is_variable:
                    key = info.name
                    if key not in body.current:
                        body.first[key] = body.current[key] = key
                        self.types[key] = info.type
                        zero = info.zero_points[0] if info.zero_points else 0
                        limits = np.iinfo(info.type.dtype) if info.type.dtype.kind in "iu" else None
                        is_of_dtype = limits is None or limits.min <= zero <= limits.max
                        expect(is_of_dtype, f"{info.place} has the zero point {zero}")
                        self.initial[key] = np.full(info.shape, zero, info.type.dtype)
                    operands[place] = body.current[key]
                    body.current[key] = body.unused(f"{key}:{len(body.nodes)}")
                    results.append(body.current[key])
        domain, op = (CUSTOM, op.removeprefix(f"{CUSTOM}::")) if custom else (DOMAIN, op)
        name = self._name(table, results)
        body.nodes.append(Node(name, op, domain, 1, tuple(operands), tuple(results), described))

    def _replace_constants(self, body: _Body, op: str, operands: list[str]) -> None:
        """Arranges depthwise filters as other filters are, and splits wide biases in words."""
        place = WITH_BIAS.get(op, 0)
        bias = body.constants.get(operands[place]) if 0 < place < len(operands) else None
        if bias is not None and bias.dtype == np.int64:
            words = np.stack([bias >> 32, (bias & 0xFFFFFFFF).astype(np.uint32).view(np.int32)])
            operands[place] = self._add(body, operands[place] + WORDS, words.astype(np.int32))
        if op == "DEPTHWISE_CONV_2D" and len(operands) > 1:
            weights = body.constants.get(operands[1])
            if weights is not None and weights.ndim == 4:
                self.budget.spend_on(operands[1], weights.nbytes)
                arranged = np.ascontiguousarray(np.transpose(weights, (3, 1, 2, 0)))
                operands[1] = self._add(body, operands[1] + ":OHWI", arranged)

    @staticmethod
    def _add(body: _Body, name: str, array: np.ndarray) -> str:
        """Adds a constant that stands for another, once."""
        if name not in body.constants:
            body.constants[name] = array
            body.taken.add(name)
        return name


def describe(infos: Sequence[TensorInfo | None]) -> dict[str, Any]:
    """The dtypes and the quantization of tensors as attributes, one tensor after the other."""
    names = (
        "" if x is None else DTYPES[x.number].name if x.number in DTYPES else type_name(x.number)
        for x in infos
    )
    return {
        "dtypes": tuple(names),
        "scales": tuple(scale for x in infos if x for scale in x.scales),
        "zero_points": tuple(zero for x in infos if x for zero in x.zero_points),
        "scale_counts": tuple(len(x.scales) if x else 0 for x in infos),
        "scale_axes": tuple(x.axis if x else 0 for x in infos),
    }


def unique_names(texts: Sequence[str]) -> list[str]:
    """The names of tensors, which a file may leave out or use twice."""
    names: dict[str, None] = {}
    for i, text in enumerate(texts):
        name = text or f"tensor {i}"
        name = f"{name}:{i}" if name in names else name
        while name in names:
            name += "'"
        names[name] = None
    return list(names)


def _groups(image: TensorInfo | None, filter: TensorInfo | None, is_depthwise: bool) -> int:
    """The number of groups of channels that do not meet."""
    if image is None or filter is None or len(image.shape) != 4 or len(filter.shape) != 4:
        return 1
    return image.shape[3] if is_depthwise else image.shape[3] // max(filter.shape[3], 1)


def _sizes(x: TensorType) -> tuple[int, ...]:
    """The static sizes of a variable."""
    return tuple(int(size) for size in x.shape)


def _level(level: Table, slot: int) -> np.ndarray:
    """The segments (slot 2) or the indices (slot 4) of a sparse level; the slot has their type."""
    kind = level.number(slot, "B")
    dtypes = {1: "int32", 2: "uint16", 3: "uint8"}
    expect(kind in dtypes, f"{level.place} has a vector of the type {kind}")
    table = level.table(slot + 1, "vector")
    values = table.numbers(0, dtypes[kind], "values") if table else ()
    return np.array(values, np.int64)
