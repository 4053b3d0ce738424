"""A model as a zip file of JSON and `.npy` files, without protobuf and without pickle."""

import collections
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from typing import IO, TypeAlias, TypeVar, cast

import numpy as np

from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax.onnx import budget
from dmlax.onnx.errors import ModelError, expect
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import (
    CAPTURES,
    MAXIMUM_DEPTH,
    Graph,
    Node,
    TensorType,
    in_order,
    operator_name,
)
from dmlax.onnx.identity import IdentityMap
from dmlax.onnx.operators import packed
from dmlax.onnx.operators.values import DTYPES

Object: TypeAlias = Mapping[str, object]
"""An object of JSON."""
Path: TypeAlias = str | os.PathLike[str]
Value = TypeVar("Value")

VERSION = 2  # an archive without subgraphs and functions has version 1
_GRAPH = "graph.json"
_OBJECT_BYTES = 16  # bytes of Python objects for a byte of JSON
_ADVICE = "; store it without compression"
_OF_GRAPH = ("outputs", "constants", "nodes")
_OF_NODE = ("name", "op", "domain", "version", "inputs", "outputs", "attributes")


def write(path: Path | IO[bytes], graph: Graph, options: Options) -> None:
    """Writes a graph, its constants and the options."""
    arrays: dict[str, np.ndarray] = {}
    names = IdentityMap[str]()  # subgraphs share arrays

    def encode(value: object) -> Object:
        if not isinstance(value, np.ndarray):
            return _describe(value)
        name = names.setdefault(value, f"{len(names)}.npy")
        if value.dtype.isbuiltin != 2 or value.dtype not in DTYPES.values():
            arrays[name] = value
            return {"array": name}
        arrays[name] = packed.to_bytes(value)  # NumPy's format has no name for the dtype
        return {"array": name, "dtype": value.dtype.name, "shape": value.shape}

    text = json.dumps(_describe_file(graph, options), default=encode, indent=1)
    size = sum(array.nbytes for array in arrays.values())
    fits = size <= budget.FREE // 2  # however far the arrays are compressed
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if fits else zipfile.ZIP_STORED) as file:
        file.writestr(_GRAPH, text)
        for name, array in arrays.items():
            with file.open(name, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)


def needed_operators(graph: Graph, options: Options) -> list[str]:
    """The names of the operators that functions of the caller compute."""
    used = {operator_name(node.domain, node.op) for node in graph.all_nodes()}
    return sorted(used & options.operators.keys())


def _describe_file(graph: Graph, options: Options) -> Object:
    operators = needed_operators(graph, options)
    defaults = {name: x for name, x in graph.defaults.items() if name in graph.constants}
    needs_new = bool(operators) or any(node.graphs for node in graph.nodes)
    return {
        "version": VERSION if needs_new else 1,
        "arithmetic": options.arithmetic,
        "nonzero_size": options.nonzero_size,
        **({"operators": operators} if operators else {}),
        "inputs": _describe_types(graph.inputs),
        **({"defaults": _describe_types(defaults)} if defaults else {}),
        **{key: getattr(graph, key) for key in _OF_GRAPH},
    }


def _describe_types(types: Mapping[str, TensorType]) -> Object:
    return {name: [x.dtype.name, x.shape] for name, x in types.items()}


def _describe(value: object) -> Object:
    """A node, or a subgraph, as an object of JSON."""
    keys = ("parameters", *_OF_GRAPH) if isinstance(value, Graph) else _OF_NODE
    return {key: getattr(value, key) for key in keys}


def is_archive(source: object) -> bool:
    """True for the path or the bytes of a zip file."""
    if isinstance(source, bytes):
        return source.startswith(b"PK\3\4")
    return isinstance(source, str | os.PathLike) and zipfile.is_zipfile(source)


def read(source: Path | bytes) -> tuple[Graph, Options]:
    """Reads a file that `write` wrote, or its bytes.

    Raises:
      ModelError: the file is malformed.
    """
    path = "the model" if isinstance(source, bytes) else os.fspath(source)
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        try:
            with zipfile.ZipFile(stream) as file:
                return _Reader(file, size).read()
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        except Exception as error:  # the readers of zip, JSON and `.npy` raise many kinds
            text = f"{path} is malformed: {type(error).__name__}: {str(error)[:300]}"
            raise ModelError(text) from None


class _Reader:
    """Reads the members of an archive once, within the file's budget."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self.file = file
        self.budget = budget.Budget(size)
        self.arrays: dict[str, np.ndarray] = {}
        for name, count in collections.Counter(file.namelist()).items():
            expect(count == 1, f"{name} is in the archive twice")

    def read(self) -> tuple[Graph, Options]:
        """Decodes the JSON text."""
        data = _check(json.loads(self._open(_GRAPH, _OBJECT_BYTES).read()), dict, "the graph")
        version = data.get("version")
        expect(version in (1, VERSION), f"the file's version is {version}, expected 1 or {VERSION}")
        given = _get({"defaults": {}, **data}, "defaults", dict)
        inputs, defaults = (
            {name: _input(name, entry) for name, entry in entries.items()}
            for entries in (_get(data, "inputs", dict), given)
        )
        graph = self._graph(data, inputs).replace(defaults=defaults)
        expect(defaults.keys() <= graph.constants.keys(), "a default is no constant")
        return graph, _options(data)

    def _graph(self, data: Object, inputs: Mapping[str, TensorType], depth: int = 0) -> Graph:
        """Decodes a graph; a subgraph has parameters and no inputs."""
        expect(depth <= MAXIMUM_DEPTH, f"subgraphs are nested deeper than {MAXIMUM_DEPTH}")
        parameters = _names(data, "parameters") if depth else ()
        constants = {
            name: self._array(_check(entry, dict, f"constant {name!r}"))
            for name, entry in _get(data, "constants", dict).items()
        }
        is_named = "" not in inputs and "" not in constants
        is_named = is_named and len({*parameters}) == len(parameters)
        expect(is_named, "an input or a constant has no name, or one twice")
        for name in inputs.keys() | {*parameters}:
            expect(name not in constants, f"{name!r} is an input and a constant")
        nodes = tuple(self._node(entry, depth) for entry in _get(data, "nodes", list))
        return in_order(Graph(nodes, inputs, _names(data, "outputs"), constants, parameters))

    def _node(self, entry: object, depth: int) -> Node:
        def decode(value: object) -> object:
            if isinstance(value, dict):
                is_graph = "nodes" in value
                return self._graph(value, {}, depth + 1) if is_graph else self._array(value)
            return tuple(value) if isinstance(value, list) else value

        data = _check(entry, dict, "a node")
        attributes = _get(data, "attributes", dict).items()
        return _expect_parameters(
            Node(
                _get(data, "name", str),
                _get(data, "op", str),
                _get(data, "domain", str),
                _get(data, "version", int),
                _names(data, "inputs"),
                _names(data, "outputs"),
                {name: decode(value) for name, value in attributes},
            )
        )

    def _array(self, entry: Object) -> np.ndarray:
        """Reads an array whose data has the size that its header declares."""
        name = _get(entry, "array", str)
        if name not in self.arrays:
            array = _from_npy(self._open(name), name, self.file.getinfo(name).file_size)
            self.arrays[name] = self._of_dtype(array, entry, name) if "dtype" in entry else array
        return self.arrays[name]

    def _of_dtype(self, array: np.ndarray, entry: Object, name: str) -> np.ndarray:
        """Reads the elements of a dtype that NumPy's format has no name for."""
        dtype, shape = _get(entry, "dtype", str), _get(entry, "shape", list)
        known = next((x for x in DTYPES.values() if x.name == dtype), None)
        if known is None or len(shape) > budget.MAXIMUM_RANK or array.dtype != np.uint8:
            raise ModelError(f"{name} is {array.dtype} for the dtype {dtype[:40]!r}, shape {shape}")
        is_shape = all(type(size) is int and size >= 0 for size in shape)
        expect(is_shape, f"{name} has the shape {shape}, expected sizes")
        sizes = tuple(shape)
        wanted = packed.packed_shape(sizes, known)
        text = f"{name} has the shape {list(array.shape)}, expected {list(wanted)}"
        expect(array.shape == wanted, text)
        self.budget.spend_on(name, math.prod(sizes) * known.itemsize, _ADVICE)
        return packed.from_bytes(array, sizes, known)

    def _open(self, name: str, factor: int = 1) -> IO[bytes]:
        """Opens a member that fits the budget, of which a byte takes `factor` bytes."""
        info = self.file.getinfo(name)
        is_bounded = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        text = f"{name} is compressed by method {info.compress_type}, expected 0 or 8"
        expect(is_bounded, text)
        self.budget.spend_on(name, info.file_size * factor, _ADVICE)
        return self.file.open(name)


def _expect_parameters(node: Node) -> Node:
    """Checks that the captured tensors of a node are the last parameters of its subgraphs."""
    captures = node.attributes.get(CAPTURES, ())
    for graph in node.graphs.values():
        last = graph.parameters[len(graph.parameters) - len(captures) :]
        is_called = last == captures and len(node.inputs) >= len(captures)
        expect(is_called, f"node {node.name!r} has a subgraph of other parameters")
    return node


def _check(value: object, kind: type[Value], what: str) -> Value:
    """The value, which must be of a type of JSON."""
    if type(value) is not kind:
        text = f"{what} is of type {type(value).__name__}, expected {kind.__name__}"
        raise ModelError(f"{_GRAPH}: {text}")
    return value


def _get(entry: Object, key: str, kind: type[Value]) -> Value:
    return _check(entry.get(key), kind, key)


def _names(entry: Object, key: str) -> tuple[str, ...]:
    names = _get(entry, key, list)
    for name in names:
        text = f"{key} has a name of type {type(name).__name__}, expected str"
        expect(isinstance(name, str), f"{_GRAPH}: {text}")
    return tuple(names)


def _options(data: Object) -> Options:
    arithmetic, size = data.get("arithmetic"), data.get("nonzero_size")
    text = f"arithmetic is {arithmetic!r}, expected one of {', '.join(ARITHMETICS)}"
    expect(arithmetic in ARITHMETICS, text)
    sizes = size.values() if isinstance(size, dict) else () if size is None else (size,)
    is_positive = all(type(x) is int and x > 0 for x in sizes)
    expect(is_positive, f"nonzero_size is {size!r}, expected at least 1")
    # `load` replaces the functions, which no file has.
    operators = dict.fromkeys(_names(data, "operators") if "operators" in data else (), print)
    size = cast(int | dict[str, int] | None, size)
    return Options(cast(Arithmetic, arithmetic), size, operators)


def _input(name: str, entry: object) -> TensorType:
    what = f"input {name!r}"
    dtype, shape = _check(entry, list, what)
    numbers = _numbers(np.dtype(_check(dtype, str, f"{what}: dtype")), what)
    sizes = _check(shape, list, f"{what}: shape")
    for size in sizes:
        is_size = isinstance(size, str) or (type(size) is int and size >= 0)
        expect(is_size, f"{what} has the size {size!r}")
    return TensorType(numbers, tuple(sizes))


def _numbers(dtype: np.dtype, what: str) -> np.dtype:
    """A dtype that ONNX has: of NumPy, or one that another package adds, as bfloat16."""
    is_standard = dtype.kind in "biuf" and dtype.itemsize <= 8
    is_known = is_standard or dtype.isbuiltin == 2 or re.fullmatch("void(8|16)", dtype.name)
    expect(bool(is_known), f"{what} has the dtype {dtype}, expected numbers")
    return dtype


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _from_npy(stream: IO[bytes], name: str, size: int) -> np.ndarray:
    """Reads the bytes of a member, which has `size` of them."""
    version = np.lib.format.read_magic(stream)
    expect(version in _HEADERS, f"{name} has the version {version}")
    shape, is_fortran, dtype = _HEADERS[version](stream)
    is_tensor = len(shape) <= budget.MAXIMUM_RANK
    expect(is_tensor, f"{name} has rank {len(shape)}, expected at most {budget.MAXIMUM_RANK}")
    wanted = math.prod(shape) * _numbers(dtype, name).itemsize
    left = size - stream.tell()
    expect(left == wanted, f"{name} has {left} bytes, expected {wanted}")
    array = np.frombuffer(stream.read(wanted), dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")
