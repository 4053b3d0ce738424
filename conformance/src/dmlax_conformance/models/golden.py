"""Golden files: a model, its inputs and the value of every tensor under both arithmetics."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import Malformed, in_file
from ..format import limits, tensors
from ..format.canonical import dumps
from ..format.tensors import Tensor, to_numpy
from ..format.vectors import parse
from ..paths import models_dir
from . import graph as graphs
from .adapter import ARITHMETICS, ModelCase
from .graph import Graph

SCHEMA = "model-1"
Values = Mapping[str, Tensor]


class MalformedModel(Malformed):
    """A model that cannot be trusted."""

    what = "model"


@dataclass(frozen=True)
class Golden:
    """A model and its values.

    Every tensor is exact but those in `bounds`, whose difference may be a power of two with that
    exponent.
    """

    name: str
    comment: str
    file: bytes
    graph: Graph
    inputs: Values
    bounds: Mapping[str, int]
    values: Mapping[str, Values]

    def case(self, arithmetic: str) -> ModelCase:
        """Return what an implementation may see, in copies of its own."""
        return ModelCase(
            model=self.name,
            arithmetic=arithmetic,
            file=self.file,
            graph=self.graph,
            inputs={name: to_numpy(tensor) for name, tensor in self.inputs.items()},
            outputs=self.graph.outputs,
            tensors={name: self.values[arithmetic][name].dtype for name in self.graph.written()},
        )

    def digest(self, arithmetic: str) -> str:
        """Return the digest of the tensors that are exact."""
        return digest(self.graph, self.values[arithmetic], self.bounds)


def digest(graph: Graph, values: Values, bounds: Iterable[str]) -> str:
    """Return the SHA-256 of the tensors without bounds, in the order of the nodes.

    Of each there are the name, the data type and the sizes in a line, and the elements as
    little-endian bytes.
    """
    left_out, total = set(bounds), hashlib.sha256()
    for name in graph.written():
        if name not in left_out:
            tensor = values[name]
            total.update(f"{name} {tensor.dtype} {list(tensor.sizes)}\n".encode())
            array = to_numpy(tensor)
            total.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()


def encode(golden: Golden) -> str:
    """Return the JSON text."""
    return dumps(
        {
            "schema": SCHEMA,
            "model": golden.name,
            "comment": golden.comment,
            "onnx_sha256": hashlib.sha256(golden.file).hexdigest(),
            "graph": graphs.encode(golden.graph),
            "inputs": {name: tensors.encode(x) for name, x in golden.inputs.items()},
            "bounds": dict(golden.bounds),
            "golden": {
                arithmetic: {
                    "sha256": golden.digest(arithmetic),
                    "tensors": {name: tensors.encode(x) for name, x in values.items()},
                }
                for arithmetic, values in golden.values.items()
            },
        }
    )


def paths(root: Path | None = None) -> list[Path]:
    """Return the golden files of a folder, which may not lead out of it."""
    return limits.find_inside(root or models_dir(), "*.json")


def load(path: Path) -> Golden:
    """Return a model, or raise `MalformedModel` with the file and the place."""
    with in_file(path, MalformedModel):
        value = parse(limits.read(path))
        file = _read_onnx(path.with_suffix(".onnx"), path.parent)
        try:
            golden = _decode(value, file)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Malformed("/", f"{type(error).__name__}: {error}") from None
        if golden.name != path.stem:
            raise Malformed("/model", f"{golden.name!r} is not the file's name")
        return golden


def _read_onnx(path: Path, folder: Path) -> bytes:
    if not path.is_file():
        raise Malformed("/", f"{path.name} is not beside it")
    limits.check_inside([path], folder)
    if path.stat().st_size > limits.LARGEST_FILE:
        raise Malformed("/", f"{path.name} has more than {limits.LARGEST_FILE} bytes")
    return path.read_bytes()


def _decode(value: Any, file: bytes) -> Golden:
    if value["schema"] != SCHEMA:
        raise Malformed("/schema", f"is not {SCHEMA}")
    if hashlib.sha256(file).hexdigest() != value["onnx_sha256"]:
        raise Malformed("/onnx_sha256", "the ONNX file has other bytes")
    graphs.check_dtypes(value["graph"], "/graph")
    graph = graphs.decode(value["graph"], "/graph")
    bounds = {name: _exponent(each, name) for name, each in value["bounds"].items()}
    golden = Golden(
        name=value["model"],
        comment=value["comment"],
        file=file,
        graph=graph,
        inputs=_decode_tensors(value["inputs"], list(graph.inputs), "/inputs"),
        bounds=bounds,
        values={
            arithmetic: _decode_tensors(
                value["golden"][arithmetic]["tensors"],
                graph.written(),
                f"/golden/{arithmetic}/tensors",
            )
            for arithmetic in ARITHMETICS
        },
    )
    _check_inputs(golden)
    for arithmetic in ARITHMETICS:
        if golden.digest(arithmetic) != value["golden"][arithmetic]["sha256"]:
            raise Malformed(f"/golden/{arithmetic}/sha256", "the tensors have another digest")
    return golden


def _exponent(value: Any, name: str) -> int:
    if not isinstance(value, int) or not -149 <= value <= 127:
        raise Malformed(f"/bounds/{name}", "is not the exponent of a float32")
    return value


def _decode_tensors(value: Mapping[str, Any], names: list[str], pointer: str) -> dict[str, Tensor]:
    if value.keys() != set(names):
        other = sorted(value.keys() ^ set(names))
        raise Malformed(pointer, f"{other[0]!r} is missing, or is no tensor of the graph")
    return {name: tensors.decode(value[name], f"{pointer}/{name}") for name in names}


def _check_inputs(golden: Golden) -> None:
    for name, given in golden.graph.inputs.items():
        tensor = golden.inputs[name]
        if (tensor.dtype, tensor.sizes) != given:
            raise Malformed(f"/inputs/{name}", "is not of the graph's data type and sizes")
