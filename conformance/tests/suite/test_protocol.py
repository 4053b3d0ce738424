"""The lines of the protocol: both directions obey the schema, and nothing is lost on the way."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest

from dmlax_conformance.adapters.oracle import Oracle
from dmlax_conformance.errors import CODES, AdapterFailure, Malformed, SpecViolation, Unsupported
from dmlax_conformance.format import tensors
from dmlax_conformance.format.canonical import dumps
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import protocol_file, schema_file
from dmlax_conformance.runner import host, protocol
from dmlax_conformance.runner import run as runner

SCHEMA = json.loads(protocol_file().read_text(encoding="utf-8"))


def obeys(message: Any, kind: str) -> bool:
    """Say whether the schema accepts a message, as what an adapter's check must agree with."""
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    return jsonschema.Draft202012Validator(schema).is_valid(message)


def sent(message: Any, kind: str) -> dict[str, Any]:
    """Return what arrives of a message, or of a line."""
    line = message if isinstance(message, bytes) else protocol.to_line(message)
    return protocol.from_line(line, kind)


def test_the_schema_is_canonical_and_writes_tensors_as_that_of_vectors() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert protocol_file().read_text(encoding="utf-8") == dumps(SCHEMA)
    ours, theirs = SCHEMA["$defs"], json.loads(schema_file().read_text())["$defs"]
    assert ours["code"]["enum"] == sorted(CODES)
    for name in ("code", "elements", "feature_level", "field", "request", "sizes"):
        assert ours[name] == theirs[name]
    requires = theirs["vector"]["properties"]["requires"]
    assert ours["case"]["properties"]["requires"] == requires


@pytest.mark.parametrize("encodings", [(), protocol.ENCODINGS])
def test_questions_obey_the_schema_and_arrive_as_they_are(
    encodings: tuple[str, ...], sample: list[Vector], huge: list[Vector]
) -> None:
    sparse = huge[:1] if encodings else []
    for seq, vector in enumerate([*sample[::4], *sparse], 1):
        asked = runner.case_of(vector, keeps_recipes=True)
        message = protocol.run_command(seq, asked, "default", encodings)
        line = json.loads(protocol.to_line(message))
        assert obeys(line, "run"), vector.id
        assert {"expect", "comment", "clause", "flags"}.isdisjoint(line["case"])
        if vector.memory:
            assert "recipe" in line["case"]["inputs"]["InputTensor"]
            continue
        case, variant = host.case_of(line["case"])
        found = {name: tensors.from_numpy(x) for name, x in case.inputs.items()}
        assert found == {name: replace(x, made_by=None) for name, x in vector.inputs.items()}
        own = runner.case_of(vector)
        assert (replace(case, inputs=own.inputs), variant) == (own, "default")


@pytest.mark.parametrize(
    "encode", [protocol.to_base64, lambda x: tensors.encode(tensors.from_numpy(x))]
)
@pytest.mark.parametrize("dtype", tensors.DTYPES)
def test_outputs_arrive_as_they_are(dtype: str, encode: Any) -> None:
    raw = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 256, 48, "uint8")
    array = raw.view(dtype).reshape(2, -1)[:, ::2]
    answer = {"seq": 1, "outputs": {"OutputTensor": encode(array)}}
    assert obeys(answer, "answer")
    got = protocol.outcome(sent(answer, "answer"))["OutputTensor"]
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"unsupported": "no kernel"}, Unsupported("no kernel")),
        ({"error": "no memory\nat 7"}, AdapterFailure("no memory", "at 7")),
        ({"refused": {"code": "sizes", "field": "X"}}, SpecViolation("sizes", "X")),
    ],
)
def test_other_answers_are_raised(answer: dict[str, Any], error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        protocol.outcome({"seq": 1, **answer})
    assert (str(caught.value), vars(caught.value)) == (str(error), vars(error))


HELLO = {"protocol": 1, "name": "x", "language": "C", "version": "", "operators": ["abc"]}


def output(**changes: Any) -> dict[str, Any]:
    """Return an answer with a changed tensor; None leaves a key out."""
    tensor = {"dtype": "uint8", "sizes": [1], "data": [1]} | changes
    kept = {key: value for key, value in tensor.items() if value is not None}
    return {"seq": 1, "outputs": {"OutputTensor": kept}}


WRONG: list[tuple[str, Any, str]] = [
    ("started", HELLO | {"protocol": 2}, " is not 1"),
    ("started", HELLO | {"protocol": True}, " is not 1"),
    ("started", HELLO | {"name": ""}, "/name"),
    ("started", HELLO | {"variants": []}, "/variants"),
    ("started", HELLO | {"operators": ["a", "a"]}, "/operators"),
    ("started", HELLO | {"capability": []}, "unexpected keys: capability"),
    ("started", HELLO | {"dtypes": ["int4"]}, "/dtypes"),
    ("started", HELLO | {"ranks": {"abc": [-1]}}, "/ranks"),
    ("started", {key: value for key, value in HELLO.items() if key != "name"}, "has no name"),
    ("answer", {"seq": 0, "unsupported": "x"}, "/seq"),
    ("answer", {"outputs": {}}, "has no seq"),
    ("answer", {"seq": 1}, "has not one of"),
    ("answer", {"seq": 1, "outputs": {}, "unsupported": "both"}, "has not one of"),
    ("answer", {"seq": 1, "answer": {}}, "unexpected keys: answer"),
    ("answer", [1, {}], "is not of type object"),
    ("answer", {"seq": 1, "refused": {"code": "sizes"}}, "has no field"),
    ("answer", {"seq": 1, "refused": {"code": "bad", "field": "InputTensor"}}, "/refused/code"),
    ("answer", {"seq": 1, "outputs": {"OutputTensor": [1, 2]}}, "/outputs/OutputTensor"),
    ("answer", output(data=None), "has not one of"),
    ("answer", output(dtype="int4"), "/dtype"),
    ("answer", output(sizes=[1.0]), "/sizes"),
    ("answer", output(sizes=[-1]), "/sizes"),
]


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    (output(data=[-1]), "-1 is outside uint8"),
    (output(data=[]), "0 elements where sizes ask for 1"),
    (output(data=[1.5]), "/data/0: is no integer"),
    (output(data=["1"]), "only 64-bit integers are strings"),
    (output(dtype="int64", data=["1_0"]), "/data/0: is no integer"),
    (output(data=None, bits=["01"]), "uint8 needs 'data'"),
    (output(data=None, base64="AAA="), "/base64"),
    (output(data=None, base64="AQ"), "/base64"),
    (output(data=None, dtype="bool", base64="Ag=="), "neither 0 nor 1"),
    (output(sizes=[1 << 62, 1 << 62]), "the sizes are larger than any array"),
    (output(sizes=[0, 1 << 62, 1 << 62], data=[]), "/sizes"),
    (output(sizes=[1] * 1000), "1000 dimensions"),
]


TEXTS: dict[bytes, str] = {
    b'{"seq":1,"unsupported":"\xff\xfe"}\n': "is not UTF-8",
    b'{"seq":NaN}\n': "token NaN",
    b'{"seq":' + b"9" * 10_000 + b"}\n": "digits",
    b'{"seq":1,"seq":1,"outputs":{}}\n': "appears twice",
}


def test_the_schema_refuses_what_an_adapter_gets_wrong() -> None:
    accepted = [message for kind, message, _ in WRONG if obeys(message, kind)]
    assert accepted == [output(sizes=[1.0])]  # an integer in JSON Schema


@pytest.mark.parametrize(
    ("kind", "message", "where"),
    [*WRONG, *(("answer", *each) for each in (*CONTRADICTIONS, *TEXTS.items()))],
)
def test_what_is_refused(kind: str, message: Any, where: str) -> None:
    with pytest.raises(Malformed) as caught:
        protocol.outcome(sent(message, kind))
    assert where in str(caught.value)


def test_what_the_schema_accepts() -> None:
    more: dict[str, Any] = {"variants": ["eager", "jit-2"], "ranks": [1, 2]}
    more |= {
        "versions": {"abc": "1"},
        "dtypes": {"abc": ["int8"], "jit-2": ["uint8"]},
        "facts": False,
    }
    for kind, message in (
        ("start", protocol.START),
        ("ask_facts", protocol.FACTS),
        ("stop", protocol.STOP),
        ("started", HELLO | more),
        ("started", {"error": "no GPU"}),
        ("started", host.hello(Oracle())),
        ("facts", {"facts": {"device": "cpu"}}),
    ):
        assert obeys(message, kind)
        assert sent(message, kind) == message
