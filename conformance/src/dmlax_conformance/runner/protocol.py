"""The protocol between the suite and an adapter: one JSON object in a line, in both directions."""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..errors import AdapterFailure, Malformed, SpecViolation, Unsupported
from ..format import json_schema, limits, tensors, vectors
from ..format.tensors import Tensor
from ..paths import protocol_file
from .adapter import Array, Case

VERSION = 1
START = {"command": "start", "protocol": VERSION}
FACTS = {"command": "facts"}
STOP = {"command": "stop"}
BASE64, RECIPE = "base64", "recipe"
ENCODINGS = (BASE64, RECIPE)  # encodings of tensors in questions, beside `data` and `bits`
_INTEGER = re.compile("-?(0|[1-9][0-9]*)")


# -- what the suite writes -----------------------------------------------------------------------


def run_command(
    seq: int, case: Case, variant: str, encodings: Collection[str] = ()
) -> dict[str, Any]:
    """Return the question about one case, with tensors in an encoding that its reader knows."""
    outputs = {k: {"dtype": v.dtype, "sizes": list(v.sizes)} for k, v in case.outputs.items()}
    asked: dict[str, Any] = {
        "id": case.id,
        "operator": case.operator,
        "variant": variant,
        "requires": sorted(case.requires),
        "attributes": dict(case.attributes),
        "inputs": {name: _question_tensor(x, encodings) for name, x in case.inputs.items()},
        "outputs": outputs,
    }
    if case.desc is not None:
        asked |= {"desc": dict(case.desc), "feature_level": case.feature_level}
    return {"command": "run", "seq": seq, "case": asked}


def _question_tensor(x: Array | Tensor, encodings: Collection[str]) -> dict[str, Any]:
    if isinstance(x, Tensor):
        if RECIPE in encodings:
            return tensors.encode(x)
        x = tensors.to_numpy(x)
    return to_base64(x) if BASE64 in encodings else tensors.encode(tensors.from_numpy(x))


def to_base64(array: Array) -> dict[str, Any]:
    """Return a tensor with its little-endian, row-major bytes in base64."""
    raw = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
    text = base64.b64encode(raw).decode("ascii")
    return {"dtype": array.dtype.name, "sizes": list(array.shape), "base64": text}


def to_line(message: Any) -> bytes:
    """Return one line of ASCII."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def most_values(case: Case) -> int:
    """Return more values than any right answer has, from the sizes that are asked for."""
    desc = case.desc or {}
    buffers = [int(desc[name]["TotalTensorSizeInBytes"]) for name in case.outputs if desc]
    return sum(buffers) + sum(prod(asked.sizes) for asked in case.outputs.values())


# -- what an adapter writes ----------------------------------------------------------------------


def from_line(line: bytes, kind: str) -> dict[str, Any]:
    """Return the message of a line, or raise `Malformed`."""
    try:
        message = vectors.parse(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start}", "is not UTF-8") from None
    check(message, kind)
    return dict(message)


def check(message: Any, kind: str) -> None:
    """Raise `Malformed` at the first place that breaks the schema."""
    _validator(kind).check(message)


@cache
def _validator(kind: str) -> json_schema.Validator:
    """Return the validator of messages.

    Decoding checks the elements of tensors. A refusal may name any field: a wrong one fails.
    """
    defs = json.loads(protocol_file().read_text(encoding="utf-8"))["$defs"]
    defs |= {"elements": True, "field": {"type": "string"}}
    return json_schema.Validator({**defs[kind], "$defs": defs})


def outcome(answer: Mapping[str, Any]) -> dict[str, Array]:
    """Return the outputs of a checked answer, or raise what it says instead of them."""
    if "refused" in answer:
        refused = answer["refused"]
        raise SpecViolation(refused["code"], refused["field"], refused.get("message", ""))
    if "unsupported" in answer:
        raise Unsupported(answer["unsupported"])
    if "error" in answer:
        raise AdapterFailure(*answer["error"].split("\n"))
    return {name: to_array(x, f"/outputs/{name}") for name, x in answer["outputs"].items()}


def to_array(value: Mapping[str, Any], pointer: str) -> Array:
    """Return the array of a checked tensor; raise `Malformed` where the tensor is wrong in itself.

    The array may be changed.
    """
    if RECIPE in value:
        return tensors.to_numpy(tensors.decode(value, pointer))
    if BASE64 in value:
        return _from_base64(value, pointer)
    key, items = next((key, value[key]) for key in ("data", "bits") if key in value)
    for index, item in enumerate(items):
        is_whole = type(item) is int or (type(item) is str and _INTEGER.fullmatch(item))
        if key == "data" and not is_whole:
            raise Malformed(f"{pointer}/data/{index}", "is no integer")
    tensor = tensors.decode(value, pointer)
    try:
        return tensors.to_numpy(tensor)
    except ValueError as error:  # more dimensions, or larger ones, than an array has
        raise Malformed(f"{pointer}/sizes", str(error)) from None


def _from_base64(value: Mapping[str, Any], pointer: str) -> Array:
    dtype, sizes = np.dtype(value["dtype"]).newbyteorder("<"), tuple(value["sizes"])
    limits.check_sizes(sizes, f"{pointer}/sizes")
    try:
        raw = bytearray(base64.b64decode(value[BASE64], validate=True))
        array = np.frombuffer(raw, dtype).reshape(sizes)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"{pointer}/base64", str(error)) from None
    if value["dtype"] == "bool" and max(raw, default=0) > 1:
        raise Malformed(f"{pointer}/base64", "a truth value is neither 0 nor 1")
    return array.astype(dtype.newbyteorder("="), copy=False)
