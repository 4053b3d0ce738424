"""The protocol for programs in any language: one JSON object in a line, in both directions."""

import json
from functools import cache
from typing import Any

from ..errors import Malformed, SpecViolation, Unsupported
from ..format import json_schema, tensors, vectors
from ..paths import protocol_file
from .adapter import Array, Case

VERSION = 1
START = {"command": "start", "protocol": VERSION}
STOP = {"command": "stop"}


def run_command(seq: int, case: Case, variant: str) -> dict[str, Any]:
    """Return the question about one case; tensors are written out, never as recipes."""
    inputs = {name: tensors.encode(tensors.from_numpy(x)) for name, x in case.inputs.items()}
    outputs = {k: {"dtype": v.dtype, "sizes": list(v.sizes)} for k, v in case.outputs.items()}
    asked: dict[str, Any] = {
        "id": case.id,
        "operator": case.operator,
        "variant": variant,
        "requires": sorted(case.requires),
        "attributes": dict(case.attributes),
        "inputs": inputs,
        "outputs": outputs,
    }
    if case.desc is not None:
        asked |= {"desc": dict(case.desc), "feature_level": case.feature_level}
    return {"command": "run", "seq": seq, "case": asked}


def to_line(message: Any) -> bytes:
    """Return one line of ASCII."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def from_line(line: bytes, kind: str) -> dict[str, Any]:
    """Return the message of a line, or raise `Malformed`."""
    try:
        message = vectors.parse(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"byte {error.start}", "is not UTF-8") from None
    check(message, kind)
    return dict(message)


def check(message: Any, kind: str) -> None:
    """Raise `Malformed` at the most telling place that breaks the schema."""
    json_schema.check(message, _validator(kind), "a program's answer")


def outcome(answer: dict[str, Any]) -> dict[str, Array]:
    """Return the outputs of a checked answer, or raise what it says instead of them."""
    if "refused" in answer:
        refused = answer["refused"]
        raise SpecViolation(refused["code"], refused["field"], refused.get("message", ""))
    if "unsupported" in answer:
        raise Unsupported(answer["unsupported"])
    return {name: _array(value, f"/outputs/{name}") for name, value in answer["outputs"].items()}


def _array(value: dict[str, Any], pointer: str) -> Array:
    tensor = tensors.decode(value, pointer)
    try:
        return tensors.to_numpy(tensor)
    except ValueError as error:  # more dimensions, or larger ones, than an array has
        raise Malformed(f"{pointer}/sizes", str(error)) from None


@cache
def _validator(kind: str) -> Any:
    schema = json.loads(protocol_file().read_text(encoding="utf-8"))
    return json_schema.validator({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})
