"""The lines of the protocol: both directions obey the schema, and nothing is lost on the way."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from dmlax_conformance.errors import CODES, Malformed, SpecViolation, Unsupported
from dmlax_conformance.format import tensors
from dmlax_conformance.format.canonical import dumps
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import protocol_file, schema_file
from dmlax_conformance.suite import protocol, runner

SHARED = ("code", "elements", "feature_level", "field", "request", "sizes")


def test_the_schema_is_a_schema_in_canonical_form() -> None:
    text = protocol_file().read_text(encoding="utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert text == dumps(schema)
    assert schema["$defs"]["code"]["enum"] == sorted(CODES)


def test_both_schemas_write_tensors_alike() -> None:
    ours, theirs = (json.loads(f().read_text())["$defs"] for f in (protocol_file, schema_file))
    assert {name: ours[name] for name in SHARED} == {name: theirs[name] for name in SHARED}
    asked = theirs["vector"]["properties"]["requires"]
    assert ours["case"]["properties"]["requires"] == asked


def test_commands_obey_the_schema(sample: list[Vector]) -> None:
    protocol.check(protocol.START, "start")
    protocol.check(protocol.STOP, "stop")
    for seq, vector in enumerate(sample, 1):
        if "Large" not in vector.flags:
            line = protocol.to_line(protocol.run_command(seq, runner.case_of(vector), "default"))
            message = protocol.from_line(line, "run")
            assert message["seq"] == seq
            assert {"expect", "comment", "clause", "flags"}.isdisjoint(message["case"])


def test_inputs_arrive_as_they_are(suite: list[Vector]) -> None:
    for vector in suite:
        if "Large" not in vector.flags:
            asked = protocol.run_command(1, runner.case_of(vector), "default")["case"]
            decoded = {name: tensors.decode(x, name) for name, x in asked["inputs"].items()}
            assert decoded == {k: replace(x, made_by=None) for k, x in vector.inputs.items()}
            assert asked["outputs"].keys() == vector.outputs.keys()
            assert asked.get("desc") == vector.desc


def test_a_recipe_is_written_out(suite: list[Vector]) -> None:
    (vector,) = (vector for vector in suite if vector.id == "nonzero-large-70001")
    asked = protocol.run_command(1, runner.case_of(vector), "default")["case"]["inputs"]
    assert asked["InputTensor"].keys() == {"dtype", "sizes", "data"}
    assert len(asked["InputTensor"]["data"]) == 70_001


@pytest.mark.parametrize("dtype", tensors.DTYPES)
def test_outputs_arrive_as_they_are(dtype: str) -> None:
    rng = np.random.default_rng(7)
    raw = rng.integers(0, 2 if dtype == "bool" else 256, 48, "uint8")
    array = raw.view(dtype).reshape(2, -1)
    sent = {"seq": 1, "outputs": {"OutputTensor": tensors.encode(tensors.from_numpy(array))}}
    got = protocol.outcome(protocol.from_line(protocol.to_line(sent), "answer"))["OutputTensor"]
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()


def test_other_answers_are_raised() -> None:
    with pytest.raises(Unsupported, match="no kernel"):
        protocol.outcome({"seq": 1, "unsupported": "no kernel"})
    with pytest.raises(SpecViolation) as caught:
        protocol.outcome({"seq": 1, "refused": {"code": "sizes", "field": "InputTensor"}})
    assert (caught.value.code, caught.value.field) == ("sizes", "InputTensor")


HELLO = {"protocol": 1, "name": "x", "language": "C", "version": "", "operators": ["abc"]}
WRONG: list[tuple[str, Any]] = [
    ("started", HELLO | {"protocol": 2}),
    ("started", HELLO | {"name": ""}),
    ("started", HELLO | {"variants": []}),
    ("started", HELLO | {"operators": ["a", "a"]}),
    ("started", {key: value for key, value in HELLO.items() if key != "operators"}),
    ("answer", {"seq": 0, "unsupported": "x"}),
    ("answer", {"seq": 1}),
    ("answer", {"seq": 1, "answer": {}}),
    ("answer", {"seq": 1, "refused": {"code": "sizes"}}),
    ("answer", {"seq": 1, "outputs": {"output": {"dtype": "int8", "sizes": [], "data": [1]}}}),
    ("answer", {"seq": 1, "outputs": {"OutputTensor": {"dtype": "int8", "sizes": []}}}),
    ("answer", {"seq": 1, "outputs": {"OutputTensor": {"dtype": "int4", "sizes": [], "data": []}}}),
    ("answer", {"seq": 1, "outputs": {"OutputTensor": [1, 2]}}),
]


@pytest.mark.parametrize(("kind", "message"), WRONG)
def test_what_the_schema_refuses(kind: str, message: Any) -> None:
    with pytest.raises(Malformed):
        protocol.from_line(protocol.to_line(message), kind)


def test_what_the_schema_accepts() -> None:
    more = {"variants": ["eager", "jit-2"], "capabilities": ["descriptors", "dtype:int64"]}
    assert protocol.from_line(protocol.to_line(HELLO | more), "started") == HELLO | more
