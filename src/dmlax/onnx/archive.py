"""A model as a zip file of JSON and `.npy` files, without protobuf and without pickle."""

import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlax.onnx.errors import ModelError
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import Graph, Node, TensorType, in_order

VERSION = 1
_GRAPH = "graph.json"
_LARGEST_GRAPH = 1 << 28  # bytes


def write(path: Any, graph: Graph, options: Options) -> None:
    """Writes a graph, its constants and the options."""
    arrays: dict[str, np.ndarray] = {}

    def keep(array: np.ndarray) -> dict[str, str]:
        name = f"{len(arrays)}.npy"
        arrays[name] = array
        return {"array": name}

    text = json.dumps(_describe(graph, options, keep), indent=1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_GRAPH, text)
        for name, array in arrays.items():
            file.writestr(name, _to_npy(array))


def _describe(graph: Graph, options: Options, keep: Any) -> dict[str, Any]:
    return {
        "version": VERSION,
        "arithmetic": options.arithmetic,
        "nonzero_size": options.nonzero_size,
        "inputs": {name: [x.dtype.name, list(x.shape)] for name, x in graph.inputs.items()},
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
                return _read(file)
        except ModelError:
            raise
        except _ERRORS as error:
            raise ModelError(f"{path} is malformed: {error}") from None


_ERRORS = (  # of the formats' own readers; an OSError is of a place outside of the file
    *(zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError),
    *(KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError, EOFError),
)


def _read(file: zipfile.ZipFile) -> tuple[Graph, Options]:
    size = file.getinfo(_GRAPH).file_size
    if size > _LARGEST_GRAPH:
        raise ModelError(f"{_GRAPH} has {size} bytes, expected at most {_LARGEST_GRAPH}")
    data = json.loads(file.read(_GRAPH))
    if data["version"] != VERSION:
        raise ModelError(f"the file's version is {data['version']}, expected {VERSION}")

    def load(entry: Mapping[str, str]) -> np.ndarray:
        return _from_npy(file, entry["array"])

    inputs = {str(name): _input(name, *each) for name, each in data["inputs"].items()}
    constants = {str(name): load(entry) for name, entry in data["constants"].items()}
    nodes = tuple(_decode(entry, load) for entry in data["nodes"])
    graph = in_order(Graph(nodes, inputs, tuple(data["outputs"]), constants))
    return graph, Options(data["arithmetic"], data["nonzero_size"])


def _input(name: str, dtype: Any, shape: Any) -> TensorType:
    return TensorType(np.dtype(dtype), tuple(_checked_size(size, name) for size in shape))


def _checked_size(size: Any, name: str) -> int | str:
    if isinstance(size, str) or (type(size) is int and size >= 0):
        return size
    raise ModelError(f"input {name!r} has the size {size!r}")


def _encode(node: Node, keep: Any) -> dict[str, Any]:
    attributes = {
        name: keep(value) if isinstance(value, np.ndarray) else value
        for name, value in node.attributes.items()
    }
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
        for name, value in entry["attributes"].items()
    }
    return Node(
        str(entry["name"]),
        str(entry["op"]),
        str(entry["domain"]),
        int(entry["version"]),
        tuple(map(str, entry["inputs"])),
        tuple(map(str, entry["outputs"])),
        attributes,
    )


def _to_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _from_npy(file: zipfile.ZipFile, name: str) -> np.ndarray:
    """Reads an array whose data has the size that its header declares."""
    with file.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ModelError(f"{name} has the version {version}")
        shape, is_fortran, dtype = read(stream)
        wanted = math.prod(shape) * dtype.itemsize
        left = file.getinfo(name).file_size - stream.tell()
        if dtype.hasobject or left != wanted:
            raise ModelError(f"{name} has {left} bytes, expected {wanted}")
        array = np.frombuffer(stream.read(wanted), dtype)
    return array.reshape(shape, order="F" if is_fortran else "C")
