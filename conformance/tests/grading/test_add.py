"""`add` fills in what a call leaves out, and writes nothing if anything is wrong; `search`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.errors import Malformed
from dmlax_conformance.format import vectors
from dmlax_conformance.paths import vectors_dir
from grading import __main__ as cli
from grading import add, search, verify
from grading.coverage import registry

OPERATOR, DYNAMIC = "quantized_lookup", "dynamic_quantize_linear"
BESIDE = "dynamic-zeros-of-both-signs-int8"


def uint8(*data: int) -> dict[str, Any]:
    return {"dtype": "uint8", "sizes": [len(data)], "data": list(data)}


def call(x: Any = None, table: Any = None, **changes: Any) -> dict[str, Any]:
    """Return a call, by default a valid one."""
    x = uint8(0, 9) if x is None else x
    table = uint8(*range(255, -1, -1)) if table is None else table
    made = {"operator": OPERATOR, "comment": "Two places of a table!"}
    outputs = {"OutputTensor": {"dtype": "uint8", "sizes": x["sizes"]}}
    inputs = {"InputTensor": x, "TableTensor": table}
    return {**made, "inputs": inputs, "outputs": outputs, **changes}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a copy of the vectors of one operator."""
    shutil.copytree(vectors_dir() / OPERATOR, tmp_path / "vectors" / OPERATOR)
    return tmp_path / "vectors"


def written(tmp_path: Path, *calls: Any) -> Path:
    """Return a file of calls."""
    path = tmp_path / "calls.json"
    path.write_text(json.dumps(calls))
    return path


def test_a_call_becomes_a_vector(root: Path, tmp_path: Path) -> None:
    path = written(tmp_path, call(), call(name="again", topic="pairs", folder="systematic"))
    added = add.add(path, root)
    first, second = added.vectors
    assert first.id == "lookup-two-places-of-a-table"
    assert first.expect["OutputTensor"].words == (255, 246)
    assert second.id == "lookup-again"
    more, pairs = (root / OPERATOR / name for name in ("core/more.json", "systematic/pairs.json"))
    assert added.texts.keys() == {more, pairs}
    assert not more.exists()
    add.write(added.texts)
    (value,) = vectors.parse(more.read_text())["vectors"]
    assert (value["since"], value["rev"]) == (add.next_version(), 1) == ("0.2.0", 1)
    assert not [x for x in verify.report(root, OPERATOR).problems if more.name in x]
    assert add.add(path, root).vectors[0].id == "lookup-two-places-of-a-table-2"


def test_a_long_output_has_a_digest_and_a_refusal_a_twin(root: Path, tmp_path: Path) -> None:
    long, short = call(uint8(*[7] * 65)), call(table=uint8(*[1] * 255))
    with pytest.raises(Malformed, match="differs from lookup-twin in"):
        add.add(written(tmp_path, long, call(), short | {"twin": "lookup-twin"}), root)
    ones = call(table=uint8(*[1] * 256), name="ones")
    (text,) = add.add(written(tmp_path, long, ones, short), root).texts.values()
    one, _, refused = vectors.parse(text)["vectors"]
    assert "sha256" in one["expect"]["outputs"]["OutputTensor"]
    assert refused["expect"] == {"error": {"code": "sizes", "field": "TableTensor"}}
    assert (refused["flags"], refused["twin"][:7]) == (["Invalid"], "lookup-")
    assert refused["partial"]
    assert "outputs" not in refused
    assert [*refused["inputs"]] == ["TableTensor"]  # all that differs from the twin


def test_a_call_says_which_rows_count(tmp_path: Path) -> None:
    one, two = ({"dtype": "uint8", "sizes": [size]} for size in (1, 2))
    outputs = {"OutputTensor": two, "OutputZeroPointTensor": one}
    outputs["OutputScaleTensor"] = {"dtype": "float32", "sizes": [1]}
    x = {"dtype": "float32", "sizes": [2], "bits": ["7fc00000", "3f800000"]}
    of_nan = {"operator": DYNAMIC, "comment": "NaN elements", "outputs": outputs}
    of_nan |= {"inputs": {"InputTensor": x}, "rows": dict.fromkeys(outputs, 0)}
    with pytest.raises(Malformed, match="beside: zeros answer dynamic-nan"):
        add.add(written(tmp_path, of_nan))
    vector = add.add(written(tmp_path, of_nan | {"beside": BESIDE})).vectors[0]
    assert {expected.words for expected in vector.expect.values()} == {()}


BAD: dict[str, tuple[Any, str]] = {
    "no object": (3, "/1: 3 is not of type object"),
    "no comment": ({"operator": OPERATOR}, "/1: {'operator': 'quantized_lookup'} has no comment"),
    "an unknown key": (call(extra=1), "has unexpected keys: extra"),
    "a wrong type": (call(inputs=[]), "/1/inputs: [] is not of type object"),
    "an unknown operator": (call(operator="relu"), "/1/operator: 'relu' is not one of ['nonzero"),
    "half of a desc": (call(desc={}), "has not all that {'desc': ['feature_level']"),
    "an unknown folder": (call(folder="more"), "/1/folder: 'more' is not one of"),
    "a wrong element": (call(uint8(256)), "/1/inputs/InputTensor/data/0: 256 is outside uint8"),
    "a malformed tensor": (call(inputs={"InputTensor": {"sizes": [1]}}), "/1: KeyError: 'dtype'"),
    "an unknown flag": (call(flags=["Nice"]), "/notes/Nice: None is not of type string"),
    "zeros alone": (call(table=uint8(*[0] * 256)), "beside: zeros"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_named_and_nothing_is_written(
    kind: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, message = BAD[kind]
    path = written(tmp_path, call(), wrong)
    before = {each: each.read_text() for each in vectors.find(root)}
    assert cli.main(["add", str(path), "--vectors", str(root)]) == 3
    error = capsys.readouterr().err
    assert f"{path}:" in error
    assert message in error
    assert {each: each.read_text() for each in vectors.find(root)} == before


def test_the_command_says_what_is_newly_covered(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in vectors.find(root):
        if path.stem not in ("invalid", "shapes"):
            path.unlink()
    arguments = ["add", str(written(tmp_path, call())), "--vectors", str(root)]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    assert "lookup-two-places-of-a-table: valid" in out
    assert "quantized_lookup: has 'the first entry'" in out
    assert vectors.load(root / OPERATOR / "core" / "more.json")


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("quantized_linear_convolution", "tie, even below"),
        ("quantized_linear_convolution", "float64 multiplier errs"),
        ("quantized_linear_average_pooling", "saturates high"),
        ("matrix_multiply_integer_to_float", "overflows above"),
    ],
)
def test_search_finds_a_call_that_add_takes(
    operator: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["search", operator, name]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    vector = search.search(operator, name, 1, 2000)
    assert vector is not None
    assert found == search.as_call(vector, found["comment"])
    assert name in registry.covered(operator, [vector])


def test_search_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["search", OPERATOR, "nothing"]) == 2
    assert "has no equivalence class 'nothing': the first entry" in capsys.readouterr().err
    assert cli.main(["search", DYNAMIC, "zero", "--tries", "0"]) == 1
