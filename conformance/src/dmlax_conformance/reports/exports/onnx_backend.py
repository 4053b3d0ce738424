"""Vectors in the layout of ONNX's backend tests: a model of one node, and its data as protobuf."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...adapters.common import refusals
from ...adapters.onnx_models import OUTPUT, call, model
from ...errors import NotStartable, Unsupported
from ...format.tensors import Tensor, to_numpy
from ...format.vectors import ExpectedError, ExpectedTensor, Vector
from ...oracle.calls import with_elements
from ...runner.adapter import Array
from ...runner.run import case_of

DATA = "test_data_set_0"


def write(vector: Vector, folder: Path) -> None:
    """Write `<id>/model.onnx`, `input_<n>.pb` and `output_0.pb`, or raise `Unsupported`."""
    vector = with_elements(vector)
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        raise NotStartable(f"export needs onnx: {error}") from error
    if isinstance(vector.expect, ExpectedError):
        raise Unsupported("a backend test has no refusals")
    if any(tensor.listed for tensor in vector.expect.values()):
        raise Unsupported("a backend test has one value for each element")
    asked = call(case_of(vector))
    written = model(asked)
    with refusals(onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        onnx.checker.check_model(written, full_check=True)
    expected = _expected(vector, vector.expect)
    place = folder / vector.id / DATA
    place.mkdir(parents=True, exist_ok=True)
    (place.parent / "model.onnx").write_bytes(written.SerializeToString())
    tensors = [(f"input_{i}", *item) for i, item in enumerate(asked.inputs.items())]
    for file, name, array in (*tensors, ("output_0", OUTPUT, expected)):
        written = onnx.numpy_helper.from_array(array, name)
        (place / f"{file}.pb").write_bytes(written.SerializeToString())


def _expected(vector: Vector, expect: Mapping[str, ExpectedTensor]) -> Array:
    """Return the output; ONNX has coordinates in columns, with a row of zeros for an axis of 1."""
    if vector.operator != "nonzero_coordinates":
        tensor = expect["OutputTensor"]
        return to_numpy(Tensor(tensor.dtype, tensor.sizes, tensor.words))
    tensor = expect["OutputCoordinatesTensor"]
    width, rank = tensor.sizes[-1], len(vector.inputs["InputTensor"].sizes)
    rows = np.array(tensor.words, np.int64).reshape(-1, width)
    if (len(rows),) != expect["OutputCountTensor"].words:
        raise Unsupported("a backend test has every row")
    return np.pad(rows, [(0, 0), (rank - width, 0)]).T.copy()
