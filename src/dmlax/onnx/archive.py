"""A model as a zip file of JSON and `.npy` files, without protobuf and without pickle."""

import collections
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from typing import IO, Any, cast

import numpy as np

from dmlax._core.requantize import ARITHMETICS, Arithmetic
from dmlax.onnx import budget
from dmlax.onnx.errors import ModelError
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
from dmlax.onnx.operators import packed
from dmlax.onnx.operators.values import DTYPES

VERSION = 2  # an archive without subgraphs and functions has version 1
_GRAPH = "graph.json"
_OBJECT_BYTES = 16  # of Python objects for a byte of JSON


def write(path: Any, graph: Graph, options: Options) -> None:
    """Writes a graph, its constants and the options."""
    arrays: dict[str, np.ndarray] = {}
    names: dict[int, tuple[str, np.ndarray]] = {}  # by the array's id: subgraphs share arrays

    def keep(array: np.ndarray) -> dict[str, Any]:
        name, _ = names.setdefault(id(array), (f"{len(names)}.npy", array))
        if array.dtype.isbuiltin != 2 or array.dtype not in DTYPES.values():
            arrays[name] = array
            return {"array": name}
        arrays[name] = packed.to_bytes(array)  # NumPy's format has no name for the dtype
        return {"array": name, "dtype": array.dtype.name, "shape": list(array.shape)}

    text = json.dumps(_describe(graph, options, keep), indent=1)
    size = sum(array.nbytes for array in arrays.values())
    fits = size <= budget.FREE // 2  # however far the arrays are compressed
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if fits else zipfile.ZIP_STORED) as file:
        file.writestr(_GRAPH, text)
        for name, array in arrays.items():
            file.writestr(name, _to_npy(array))


def _describe(graph: Graph, options: Options, keep: Any) -> dict[str, Any]:
    used = {operator_name(node.domain, node.op) for node in graph.all_nodes()}
    operators = sorted(used & options.operators.keys())
    is_new = bool(operators) or any(node.graphs for node in graph.nodes)
    return {
        "version": VERSION if is_new else 1,
        "arithmetic": options.arithmetic,
        "nonzero_size": options.nonzero_size,
        **({"operators": operators} if operators else {}),
        "inputs": {name: [x.dtype.name, list(x.shape)] for name, x in graph.inputs.items()},
        **_describe_graph(graph, keep),
    }


def _describe_graph(graph: Graph, keep: Any) -> dict[str, Any]:
    return {
        "outputs": list(graph.outputs),
        "constants": {name: keep(array) for name, array in graph.constants.items()},
        "nodes": [_encode(node, keep) for node in graph.nodes],
    }


def read(path: Any) -> tuple[Graph, Options]:
    """Reads what `write` wrote.

    Raises:
      ModelError: the file is malformed.
    """
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as file:
                return _Reader(file, os.fstat(stream.fileno()).st_size).graph()
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
        except Exception as error:  # of the formats' own readers
            text = f"{path} is malformed: {type(error).__name__}: {str(error)[:300]}"
            raise ModelError(text) from None


class _Reader:
    """Reads the members of an archive, each of them once and within the file's budget."""

    def __init__(self, file: zipfile.ZipFile, size: int) -> None:
        self.file = file
        self.budget = budget.Budget(size)
        self.arrays: dict[str, np.ndarray] = {}
        names = collections.Counter(file.namelist())
        for name in (name for name, count in names.items() if count > 1):
            raise ModelError(f"{name} is in the archive twice")

    def graph(self) -> tuple[Graph, Options]:
        """Decodes the JSON text."""
        data = _check(json.loads(self._open(_GRAPH, _OBJECT_BYTES).read()), dict, "the graph")
        if data.get("version") not in (1, VERSION):
            raise ModelError(
                f"the file's version is {data.get('version')}, expected 1 or {VERSION}"
            )
        inputs = {name: _input(name, each) for name, each in _get(data, "inputs", dict).items()}
        return self._graph(data, inputs), _options(data)

    def _graph(
        self, data: Mapping[str, Any], inputs: Mapping[str, TensorType], depth: int = 0
    ) -> Graph:
        """Decodes a graph; a subgraph has parameters and no inputs."""
        if depth > MAXIMUM_DEPTH:
            raise ModelError(f"subgraphs are nested deeper than {MAXIMUM_DEPTH}")
        parameters = _names(data, "parameters") if depth else ()
        constants = {
            name: self.array(_check(entry, dict, f"constant {name!r}"))
            for name, entry in _get(data, "constants", dict).items()
        }
        if "" in inputs or "" in constants or len({*parameters}) != len(parameters):
            raise ModelError("an input or a constant has no name, or one twice")
        for name in (inputs.keys() | {*parameters}) & constants.keys():
            raise ModelError(f"{name!r} is an input and a constant")

        def load(entry: Mapping[str, Any]) -> Any:
            if "nodes" in entry:
                return self._graph(entry, {}, depth + 1)
            return self.array(entry)

        nodes = tuple(
            _expect_parameters(_decode(_check(entry, dict, "a node"), load))
            for entry in _get(data, "nodes", list)
        )
        return in_order(Graph(nodes, inputs, _names(data, "outputs"), constants, parameters))

    def array(self, entry: Mapping[str, Any]) -> np.ndarray:
        """Reads an array whose data has the size that its header declares."""
        name = _get(entry, "array", str)
        if name not in self.arrays:
            array = _from_npy(self._open(name), name, self.file.getinfo(name).file_size)
            self.arrays[name] = self._of_dtype(array, entry, name) if "dtype" in entry else array
        return self.arrays[name]

    def _of_dtype(self, array: np.ndarray, entry: Mapping[str, Any], name: str) -> np.ndarray:
        """Reads the elements of a dtype that NumPy's format has no name for."""
        dtype, shape = _get(entry, "dtype", str), _get(entry, "shape", list)
        known = next((each for each in DTYPES.values() if each.name == dtype), None)
        if known is None or len(shape) > budget.MAXIMUM_RANK or array.dtype != np.uint8:
            raise ModelError(f"{name} is {array.dtype} for the dtype {dtype[:40]!r}, shape {shape}")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ModelError(f"{name} has the shape {shape}, expected sizes")
        sizes = tuple(shape)
        wanted = packed.packed_shape(sizes, known)
        if array.shape != wanted:
            raise ModelError(f"{name} has the shape {list(array.shape)}, expected {list(wanted)}")
        self._spend(math.prod(sizes) * known.itemsize, name)
        return packed.from_bytes(array, sizes, known)

    def _open(self, name: str, factor: int = 1) -> IO[bytes]:
        """Opens a member that fits the budget, where a byte of it takes as many as a factor."""
        info = self.file.getinfo(name)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # unbounded
            raise ModelError(
                f"{name} is compressed by method {info.compress_type}, expected 0 or 8"
            )
        self._spend(info.file_size * factor, name)
        return self.file.open(name)

    def _spend(self, count: int, name: str) -> None:
        """Counts the bytes that a member expands to."""
        try:
            self.budget.spend(count)
        except budget.OverBudget as error:
            raise ModelError(f"{name} {error}; store it without compression") from None


def _expect_parameters(node: Node) -> Node:
    """Checks that the captured tensors of a node are the last parameters of its subgraphs."""
    captures = node.attributes.get(CAPTURES, ())
    for graph in node.graphs.values():
        last = graph.parameters[len(graph.parameters) - len(captures) :]
        if last != captures or len(node.inputs) < len(captures):
            raise ModelError(f"node {node.name!r} has a subgraph of other parameters")
    return node


def _check(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        text = f"{what} is of type {type(value).__name__}, expected {kind.__name__}"
        raise ModelError(f"{_GRAPH}: {text}")
    return value


def _get(entry: Mapping[str, Any], key: str, kind: type) -> Any:
    return _check(entry.get(key), kind, key)


def _names(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = _get(entry, key, list)
    for name in names:
        if not isinstance(name, str):
            raise ModelError(
                f"{_GRAPH}: {key} has a name of type {type(name).__name__}, expected str"
            )
    return tuple(names)


def _options(data: Mapping[str, Any]) -> Options:
    arithmetic, size = data.get("arithmetic"), data.get("nonzero_size")
    if arithmetic not in ARITHMETICS:
        raise ModelError(f"arithmetic is {arithmetic!r}, expected one of {', '.join(ARITHMETICS)}")
    sizes = size.values() if isinstance(size, dict) else () if size is None else (size,)
    if not all(type(each) is int and each > 0 for each in sizes):
        raise ModelError(f"nonzero_size is {size!r}, expected at least 1")
    # `load` replaces the functions, which no file has.
    operators = dict.fromkeys(_names(data, "operators") if "operators" in data else (), print)
    return Options(cast(Arithmetic, arithmetic), size, operators)


def _input(name: str, entry: Any) -> TensorType:
    entry = _check(entry, list, f"input {name!r}")
    dtype, shape = entry
    found = _numbers(np.dtype(_check(dtype, str, f"input {name!r}: dtype")), f"input {name!r}")
    sizes = _check(shape, list, f"input {name!r}: shape")
    return TensorType(found, tuple(_checked_size(size, name) for size in sizes))


def _numbers(dtype: np.dtype, what: str) -> np.dtype:
    """A dtype that ONNX has: NumPy's own, or one that another package adds, as bfloat16."""
    is_own = dtype.kind in "biuf" and dtype.itemsize <= 8
    if not (is_own or dtype.isbuiltin == 2 or re.fullmatch("void(8|16)", dtype.name)):
        raise ModelError(f"{what} has the dtype {dtype}, expected numbers")
    return dtype


def _checked_size(size: Any, name: str) -> int | str:
    if isinstance(size, str) or (type(size) is int and size >= 0):
        return size
    raise ModelError(f"input {name!r} has the size {size!r}")


def _encode(node: Node, keep: Any) -> dict[str, Any]:
    def encode(value: Any) -> Any:
        if isinstance(value, Graph):
            return {"parameters": list(value.parameters), **_describe_graph(value, keep)}
        return keep(value) if isinstance(value, np.ndarray) else value

    attributes = {name: encode(value) for name, value in node.attributes.items()}
    return {
        "name": node.name,
        "op": node.op,
        "domain": node.domain,
        "version": node.version,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "attributes": attributes,
    }


def _decode(entry: Mapping[str, Any], load: Any) -> Node:
    attributes = {
        name: load(value)
        if isinstance(value, dict)
        else (tuple(value) if isinstance(value, list) else value)
        for name, value in _get(entry, "attributes", dict).items()
    }
    return Node(
        _get(entry, "name", str),
        _get(entry, "op", str),
        _get(entry, "domain", str),
        _get(entry, "version", int),
        _names(entry, "inputs"),
        _names(entry, "outputs"),
        attributes,
    )


def _to_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _from_npy(stream: IO[bytes], name: str, size: int) -> np.ndarray:
    """Reads the bytes of a member, as many as a size."""
    version = np.lib.format.read_magic(stream)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ModelError(f"{name} has the version {version}")
    shape, is_fortran, dtype = read(stream)
    if len(shape) > budget.MAXIMUM_RANK:
        raise ModelError(f"{name} has rank {len(shape)}, expected at most {budget.MAXIMUM_RANK}")
    wanted = math.prod(shape) * _numbers(dtype, name).itemsize
    left = size - stream.tell()
    if left != wanted:
        raise ModelError(f"{name} has {left} bytes, expected {wanted}")
    array = np.frombuffer(stream.read(wanted), dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")
