"""Vectors as models of DirectML's DxDispatch: buffers, an operator, a dispatch, its outputs.

A buffer's initial type does not restrict its use, so floats are given as unsigned integers of the
same width: that way every bit arrives. Outputs start as `UNWRITTEN`, so that a dispatch that does
nothing is noticed, and are written to `<id>.<tensor>.npy`, where `check` finds them. A tensor that
DirectML owns is bound with the operator, not with the dispatch.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Unsupported
from ..format import layout
from ..format.descs import buffer
from ..format.tensors import DTYPES, Tensor, count
from ..format.vectors import Vector
from ..operators.descs import express, feature_levels, tensor_descs

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
    desc, inputs = _desc_and_buffers(vector)
    given = tensor_descs(vector.operator, desc, "inputs")
    asked = tensor_descs(vector.operator, desc, "outputs")
    resources = {name: _input(inputs[name], tensor) for name, tensor in given.items()}
    resources |= {name: _output(tensor) for name, tensor in asked.items()}
    owned = {name: name for name, tensor in given.items() if tensor["Flags"] == "OWNED_BY_DML"}
    bindings = {name: name for name in resources if name not in owned}
    dispatch = {"type": "dispatch", "dispatchable": OPERATOR, "bindings": bindings}
    prints = [{"type": "print", "resource": name} for name in asked]
    files = [
        {"type": "writeFile", "resource": name, "targetPath": f"{vector.id}.{name}.npy"}
        for name in asked
    ]
    kind = f"DML_OPERATOR_{vector.operator.upper()}"
    operator = {"type": kind, "desc": _present(desc)}
    return {
        "resources": resources,
        "dispatchables": {OPERATOR: {**operator, "bindings": owned} if owned else operator},
        "commands": [dispatch, *prints, *files],
    }


def _desc_and_buffers(vector: Vector) -> tuple[Mapping[str, Any], Mapping[str, Tensor]]:
    """Return the vector's own desc, or one that DirectML accepts for its functional call."""
    if vector.desc is not None:
        return vector.desc, vector.inputs
    desc = express(vector.operator, vector.attributes, vector.inputs, vector.outputs)
    if not feature_levels(vector.operator, desc):
        raise Unsupported("no feature level accepts this call as a desc")
    return desc, {name: buffer(desc[name], tensor) for name, tensor in vector.inputs.items()}


def _input(tensor: Tensor, desc: Mapping[str, Any]) -> dict[str, Any]:
    dtype = DTYPES[tensor.dtype]
    kind = f"UINT{dtype.width}" if dtype.kind == "bits" else tensor.dtype.upper()
    return {
        "initialValuesDataType": kind,
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
