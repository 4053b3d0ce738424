"""Golden files: a model, its inputs and the value of every tensor under both arithmetics."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..errors import Malformed, in_file
from ..format import limits, tensors
from ..format.canonical import dumps
from ..format.tensors import Tensor, to_numpy
from ..format.vectors import parse
from ..paths import models_dir
from ..texts import of_error
from . import graph as graphs
from . import onnx_file
from .adapter import ARITHMETICS, ModelCase
from .arrays import far_apart, shown
from .evaluate import evaluate
from .graph import Graph

SCHEMA = "model-1"
STEPS = {"uint8": Fraction(1), "int8": Fraction(1), "float32": Fraction(1, 1 << 12)}
Values = Mapping[str, Tensor]


class MalformedModel(Malformed):
    """A model that cannot be trusted."""

    what = "model"


@dataclass(frozen=True)
class Golden:
    """A model and its values.

    Every tensor is exact but those in `bounds`, whose `float32` values may differ by a power of two
    with that exponent.
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

    def bounds_of(self, arithmetic: str) -> Mapping[str, int]:
        """Return the bounds of an arithmetic: `exact` has none."""
        return self.bounds if arithmetic == "float32" else {}

    def digest(self, arithmetic: str) -> str:
        """Return the SHA-256 of the exact tensors, in the order of the nodes.

        A tensor is a line with its name, its data type and its sizes, and then its elements as
        little-endian bytes.
        """
        total = hashlib.sha256()
        bounds = self.bounds_of(arithmetic)
        for name in (name for name in self.graph.written() if name not in bounds):
            tensor = self.values[arithmetic][name]
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


def problems(root: Path | None = None) -> list[str]:
    """Return what is wrong with the models of a folder.

    The evaluator computes every tensor again. The values `exact` are the evaluator's, and a value
    `float32` is within a step of what its node gives for the operands of `float32`. Sums that
    saturate fail that, as does a graph that contradicts the ONNX file.
    """
    folder = root or models_dir()
    alone = [x for x in limits.find_inside(folder, "*.onnx") if not x.with_suffix(".json").exists()]
    found = [f"{path}: no JSON file is beside it" for path in alone]
    for path in paths(folder):
        try:
            found += [f"{path.stem}: {line}" for line in _problems(load(path), path)]
        except Malformed as error:
            found.append(str(error))
        except Exception as error:  # a node that the evaluator lacks, or operands that do not fit
            found.append(f"{path.stem}: the evaluator ends with {of_error(error)}")
    return found


def _problems(golden: Golden, path: Path) -> Iterator[str]:
    if encode(golden) != path.read_text(encoding="utf-8"):
        yield "the JSON file is not in canonical form"
    if find_spec("onnx") is None:
        yield "the ONNX file is not compared with the graph: the package onnx is missing"
    else:
        yield from onnx_file.differences(golden.file, golden.graph, golden.values["exact"])
    for arithmetic, values in golden.values.items():
        is_exact = arithmetic == "exact"
        computed = evaluate(golden.graph, golden.inputs, given=None if is_exact else values)
        for name, want in computed.items():
            have, bound = values[name], None if is_exact else STEPS.get(want.dtype)
            if (have.dtype, have.sizes) != (want.dtype, want.sizes):
                apart = [(f"{have.dtype} {have.sizes}", f"{want.dtype} {want.sizes}")]
            else:
                places = far_apart(have, want, bound)[:1]
                apart = [(shown(have, at), f"{shown(want, at)} at element {at}") for at in places]
            for one, other in apart:
                yield f"{arithmetic} {name} is {one}, and the evaluator's is {other}"


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
    graph = graphs.decode(value["graph"], "/graph")
    for name, bound in value["bounds"].items():
        if not isinstance(bound, int) or not -149 <= bound <= 127:
            raise Malformed(f"/bounds/{name}", "is not the exponent of a float32")
    golden = Golden(
        name=value["model"],
        comment=value["comment"],
        file=file,
        graph=graph,
        inputs=_decode_tensors(value["inputs"], list(graph.inputs), "/inputs"),
        bounds=value["bounds"],
        values={
            each: _decode_tensors(
                value["golden"][each]["tensors"], graph.written(), f"/golden/{each}/tensors"
            )
            for each in ARITHMETICS
        },
    )
    for name, tensor in golden.inputs.items():
        if (tensor.dtype, tensor.sizes) != graph.inputs[name]:
            raise Malformed(f"/inputs/{name}", "is not of the graph's data type and sizes")
    for arithmetic in ARITHMETICS:
        if golden.digest(arithmetic) != value["golden"][arithmetic]["sha256"]:
            raise Malformed(f"/golden/{arithmetic}/sha256", "the tensors have another digest")
    return golden


def _decode_tensors(value: Mapping[str, Any], names: list[str], pointer: str) -> dict[str, Tensor]:
    if value.keys() != set(names):
        other = sorted(value.keys() ^ set(names))
        raise Malformed(pointer, f"{other[0]!r} is missing, or is no tensor of the graph")
    return graphs.decode_tensors({name: value[name] for name in names}, pointer)
