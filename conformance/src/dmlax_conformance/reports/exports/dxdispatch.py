"""Vectors as models of DirectML's DxDispatch: buffers, an operator, a dispatch, its outputs.

A buffer has floats as unsigned integers of their width, so that every bit arrives. Outputs begin as
`UNWRITTEN`, which shows a dispatch that does nothing. Tensors that DirectML owns are bound with the
operator.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import Unsupported
from ...format import layout
from ...format.descs import buffer
from ...format.tensors import DTYPES, Tensor, count
from ...format.vectors import Vector
from ...oracle.descriptors import express, feature_levels, tensor_descs

OPERATOR = "operator"
UNWRITTEN = 85


def write(vector: Vector, folder: Path) -> None:
    """Write `<id>.json`, or raise `Unsupported`."""
    text = json.dumps(model(vector), indent=1) + "\n"
    (folder / f"{vector.id}.json").write_text(text, encoding="utf-8")


def model(vector: Vector) -> dict[str, Any]:
    """Return the model of a valid vector."""
    if not vector.is_valid:
        raise Unsupported("a model has no refusals")
    desc, inputs = vector.desc, vector.inputs
    if desc is None:
        desc = express(vector.operator, vector.attributes, inputs, vector.outputs)
        if not feature_levels(vector.operator, desc):
            raise Unsupported("no feature level accepts this call as a desc")
        inputs = {name: buffer(desc[name], tensor) for name, tensor in inputs.items()}
    given = tensor_descs(vector.operator, desc, "inputs")
    asked = tensor_descs(vector.operator, desc, "outputs")
    resources = {name: _input(inputs[name], tensor) for name, tensor in given.items()}
    resources |= {name: _output(tensor) for name, tensor in asked.items()}
    owned = {name: name for name, tensor in given.items() if tensor["Flags"] == "OWNED_BY_DML"}
    bindings = {name: name for name in resources if name not in owned}
    operator = {"type": f"DML_OPERATOR_{vector.operator.upper()}", "desc": _present(desc)}
    files = {name: f"{vector.id}.{name}.npy" for name in asked}
    return {
        "resources": resources,
        "dispatchables": {OPERATOR: {**operator, "bindings": owned} if owned else operator},
        "commands": [
            {"type": "dispatch", "dispatchable": OPERATOR, "bindings": bindings},
            *({"type": "print", "resource": name} for name in asked),
            *({"type": "writeFile", "resource": n, "targetPath": x} for n, x in files.items()),
        ],
    }


def _input(tensor: Tensor, desc: Mapping[str, Any]) -> dict[str, Any]:
    dtype = DTYPES[tensor.dtype]
    return {
        "initialValuesDataType": f"UINT{dtype.width}" if dtype.kind == "bits" else desc["DataType"],
        "initialValues": list(tensor.words),
        "sizeInBytes": desc["TotalTensorSizeInBytes"],
    }


def _output(desc: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "initialValuesDataType": desc["DataType"],
        "initialValues": {"valueCount": count(layout.array_sizes(desc)), "value": UNWRITTEN},
        "sizeInBytes": desc["TotalTensorSizeInBytes"],
    }


def _present(desc: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is null: absent tensors and packed strides."""
    there = {name: value for name, value in desc.items() if value is not None}
    return {
        name: _present(value) if isinstance(value, Mapping) else value
        for name, value in there.items()
    }
