"""The parts of the schema of vector files that follow from the operators."""

import json
from collections.abc import Iterable
from typing import Any

from ...format.canonical import dumps
from ...operators import OPERATORS
from ...paths import schema_file

Json = dict[str, Any]
PREFIX = "operator-"


def text() -> str:
    """Return the schema with today's operators; the rest is as the file has it."""
    schema = json.loads(schema_file().read_text(encoding="utf-8"))
    written = {k: own for k, own in schema["$defs"].items() if not k.startswith(PREFIX)}
    schema["$defs"] = written | {f"{PREFIX}{name}": _vector(name) for name in OPERATORS}
    schema["properties"]["operator"] = {"enum": list(OPERATORS)}
    schema["allOf"] = [_file(name) for name in OPERATORS]
    return dumps(schema)


def _file(operator: str) -> Json:
    """Return the rule that ties a file's operator to its vectors."""
    return {
        "if": {"properties": {"operator": {"const": operator}}, "required": ["operator"]},
        "then": {"properties": {"vectors": {"items": _ref(f"{PREFIX}{operator}")}}},
    }


def _vector(operator: str) -> Json:
    """Return the fields of a call and of a desc, if there are any; a refused one has no tensors.

    A partial vector has any of the fields.
    """
    rows = OPERATORS[operator].tensors
    inputs = {row.tensor: _ref("tensor") for row in rows if not row.is_output}
    beyond = {name: _ref("tensor") for name in OPERATORS[operator].only_in_calls}
    needed = [row.tensor for row in rows if row.kind == "input"]
    outputs = {row.tensor: _ref("request") for row in rows if row.is_output}
    attributes = _attributes(operator)
    fields = {row.tensor: _ref("maybe_tensor_desc") for row in rows}
    fields |= {k: attributes.get(k, _ref("natural")) for k in OPERATORS[operator].attributes}
    desc: Json = {"desc": _object(fields, fields), "inputs": _object(inputs)}
    desc = desc if OPERATORS[operator].tables else {"desc": False}
    call = {
        "attributes": _object(attributes, attributes),
        "inputs": _object(inputs | beyond, needed),
        "outputs": _object(outputs, [row.tensor for row in rows if row.kind == "output"]),
    }
    every = {**desc, **call}
    some = {key: own and _object(own["properties"]) for key, own in every.items()}
    return {
        "if": {"required": ["partial"]},
        "then": {"properties": some},
        "else": {
            "if": {"required": ["desc"]},
            "then": {"properties": desc},
            "else": {"properties": call},
        },
    }


def _attributes(operator: str) -> Json:
    """Return the attributes of a call, of the types that its plain call has."""
    plain = OPERATORS[operator].module("smoke").SMOKE.attributes
    types = {list: _ref("integers"), int: {"type": "integer"}, bool: {"type": "boolean"}}
    return {name: types[type(value)] for name, value in plain.items()}


def _object(properties: Json, required: Iterable[str] = ()) -> Json:
    value = {"type": "object", "additionalProperties": False, "properties": properties}
    return value | {"required": list(required)}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}
