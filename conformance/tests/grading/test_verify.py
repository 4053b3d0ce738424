"""`verify` finds nothing in the suite and names the place of every kind of damage; the digest."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance.format import canonical, vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.paths import vectors_dir
from grading import __main__ as cli
from grading import digest, verify

Edit = Callable[[dict[str, Any], dict[str, Any]], Any]  # changes a file and one of its vectors


SAMPLE = slice(None, None, 12)  # one in twelve files, in the order of their paths


@pytest.mark.slow
def test_nothing_is_wrong() -> None:
    assert verify.problems() == []


def test_nothing_is_wrong_with_a_sample_of_the_files(tmp_path: Path) -> None:
    """The sample covers few clauses, so that only complaints about files count."""
    for path in vectors.find()[SAMPLE]:
        copy = tmp_path / path.relative_to(vectors_dir())
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    reports = [verify.report(tmp_path, operator) for operator in OPERATORS]
    assert all(report.lines for report in reports)
    complaints = [line for report in reports for line in report.problems]
    assert [line for line in complaints if line.startswith(str(tmp_path))] == []


def test_no_vector_of_the_release_is_lost_or_changed() -> None:
    lines = dict[str, digest.Line]()
    for path in vectors.find():
        file = vectors.parse(path.read_text(encoding="utf-8"))
        for value in vectors.completed(file["vectors"]):
            lines[value["id"]] = digest.line("", {"operator": file["operator"], **value})
    assert list(digest.problems(lines)) == []


@cache
def file_of(name: str) -> Path:
    """Return the file that holds a vector."""
    paths = vectors_dir().glob("*/*/*.json")
    return next(path for path in paths if f'"id": "{name}"' in path.read_text())


def damaged(root: Path, name: str, edit: Edit) -> Path:
    """Copy the file of a vector, edit it, and return the copy."""
    path = root / file_of(name).relative_to(vectors_dir())
    file = vectors.parse(file_of(name).read_text())
    edit(file, next(value for value in file["vectors"] if value["id"] == name))
    path.parent.mkdir(parents=True)
    path.write_text(canonical.dumps(file, canonical.VECTORS))
    return path


def complaints(path: Path) -> list[str]:
    """Return what `verify` says about a file, without what its operator then lacks."""
    found = verify.report(path.parents[2], path.parents[1].name).problems
    return [line.removeprefix(str(path)) for line in found if line.startswith(str(path))]


def put(*path: Any) -> Edit:
    """Return an edit that sets the value at a path in a vector, or in the file after "file"."""

    def edit(file: dict[str, Any], vector: dict[str, Any]) -> None:
        *keys, last, value = path[1:] if path[0] == "file" else path
        place: Any = file if path[0] == "file" else vector
        for key in keys:
            place = place[key]
        place[last] = value

    return edit


def put_all(legend: str, text: str) -> Edit:
    """Return an edit that explains every word of a legend with the same text."""
    return lambda file, vector: file[legend].update(dict.fromkeys(file[legend], text))


OUTPUT, ERROR = ("expect", "outputs", "OutputTensor"), ("expect", "error")
REFUSAL = {"error": {"code": "value", "field": "InputTensor"}}
STRIDED, EARLY = "quantize-desc-strides-input-padded", "quantize-desc-int32-2-0"
ONE, REFUSED, ALONE = "lookup-one", "lookup-int16-input", "lookup-covering-rank-0-255-int8"
OTHER, TYPE = "This is not what it says.", ("desc", "ScaleTensor", "DataType", "INT8")
DAMAGE: list[tuple[str, Edit, str]] = [  # damage of a vector, and what is said about it
    (ONE, put(*OUTPUT, "data", [7]), "element 0 is 7, the oracle's is "),
    ("lookup-large-pairs-1", put(*OUTPUT, "sha256", "0" * 64), "0000, the oracle's is "),
    (REFUSED, put(*ERROR, "code", "sizes"), "says [('data_type', 'InputTensor')]"),
    (REFUSED, put(*ERROR, "field", "TableTensor"), "is [('data_type', 'TableTensor')]"),
    (
        ONE,
        lambda file, vector: vector.update(twin="lookup-rank-0", expect=REFUSAL),
        "/vectors/1/expect/error: lookup-one is [('value', 'InputTensor')], the oracle says that",
    ),
    (STRIDED, put("feature_level", "2_1"), f"/vectors/0/expect: {STRIDED} is valid, the oracle"),
    (EARLY, put("feature_level", "6_0"), "the oracle says that it is valid"),
    (f"{STRIDED}-short", put("clause", ["tensor-buffer"]), "does not name tensor-byte-size"),
    (STRIDED, put("requires", ["descriptors"]), f"requires: {STRIDED} has ['descriptors'], needs"),
    (ONE, put("id", "qadd-one"), "/id: qadd-one lacks the prefix of quantized_lookup"),
    (ONE, put("id", "lookup-rank-0"), "/vectors/1/id: lookup-rank-0 is also the id at "),
    (REFUSED, put("file", "vectors", 0, "id", "lookup-x"), ":/vectors/1/twin: is no whole vector"),
    (EARLY, put(*TYPE), f"/twin: {EARLY} differs from quantize-desc-int32-2-1 in ['ScaleTensor',"),
    (ONE, put("after", "lookup-x"), "after: lookup-x is no other vector of this file"),
    (ONE, put("beside", "lookup-rank-0"), "beside: lookup-one counts alone, and names"),
    (ALONE, lambda file, vector: vector.pop("beside"), f"beside: zeros answer {ALONE}, and it"),
    (ONE, put("memory", 5), "memory: lookup-one: a sparse input, `memory` and"),
    (ONE, put_all("clauses", OTHER), f"says {OTHER!r}, the oracle '"),
    (STRIDED, put_all("notes", OTHER), f"says {OTHER!r}, the oracle '"),
    (ONE, put("file", "notes", "Strange", "no vector"), "Strange: is explained but not"),
    (ONE, put("file", "source", "DML_X_OPERATOR_DESC"), ":/source: is 'DML_X"),
    (ONE, put("file", "topic", "x"), ":/topic: the file is not named after"),
    (ONE, put("extra", 1), "/vectors/1"),
]


@pytest.mark.parametrize(("name", "edit", "message"), DAMAGE)
def test_damage_is_named_with_its_place(
    name: str, edit: Edit, message: str, tmp_path: Path
) -> None:
    found = complaints(damaged(tmp_path, name, edit))
    assert any(message in line for line in found), found
    assert all(line.startswith(":/") for line in found), found


def test_form_and_folder_are_checked(tmp_path: Path) -> None:
    path = damaged(tmp_path, ONE, lambda file, vector: None)
    assert complaints(path) == []
    moved = path.parents[1] / "other" / path.name
    moved.parent.mkdir()
    path.rename(moved)
    moved.write_text(moved.read_text() + "\n")
    wanted = ["is not in canonical form", "is in the folder other, not in core or systematic"]
    assert complaints(moved) == [f":/: {each}" for each in wanted]


def test_what_is_no_file_of_vectors_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged(tmp_path, ONE, lambda file, vector: None)
    path.write_text('{"schema": ')
    assert any(f"{path}:1:12" in line for line in verify.problems(tmp_path, 1))
    assert cli.main(["verify", "--vectors", str(tmp_path)]) == 3
    assert f"{path}:1:12" in capsys.readouterr().err


# -- the digest --------------------------------------------------------------------------------

LINES = {
    name: digest.line(f"f:/{name}", {"id": name, "operator": "a"})
    for name in (f"a-{number}" for number in range(6))
}
NEW = digest.Line("f:/new", "a", "", '{"id": "a-9"}')
WITHOUT = {name: line for name, line in LINES.items() if name != "a-3"}
MENDED = {"a-3": {"why": "wrong", "was": {"id": "a-3", "operator": "a"}}}


@pytest.mark.parametrize(
    ("lines", "mended", "complaint"),
    [
        (LINES, {}, None),
        (WITHOUT, {}, "vectors/a: 1 vectors of 0.1.0 are lost after a-2 (f:/a-2)"),
        (LINES | {"a-3": NEW}, {}, "f:/new: a-3 is not what it was"),
        (LINES | {"a-9": NEW}, {}, "f:/new: a-9 is not what it was"),
        (LINES | {"a-9": NEW._replace(since="0.2.0")}, {}, None),
        (LINES | {"a-3": NEW}, MENDED, None),
        (WITHOUT, MENDED, "digest.json: a-3 is mended, but no vector"),
    ],
)
def test_the_digest_names_what_is_lost_changed_or_new(
    lines: dict[str, digest.Line], mended: dict[str, Any], complaint: str | None, tmp_path: Path
) -> None:
    texts = [line.text for line in LINES.values()]
    sha256 = digest.digest(texts)
    release = {"vectors": 6, "sha256": sha256, "marks": {"a": "".join(map(digest.mark, texts))}}
    path = tmp_path / "digest.json"
    path.write_text(json.dumps({digest.RELEASE: release, "mended": mended}))
    found = list(digest.problems(lines, path))
    assert bool(found) == (complaint is not None)
    if complaint is not None:
        assert found[0].startswith(complaint)
        assert mended or f"{len(lines)} vectors have no `since`" in found[-1]


def test_extensions_are_declared(suite: list[Vector]) -> None:
    for vector in suite:
        dtypes = {tensor.dtype for tensor in vector.inputs.values()}
        wide = {f"dtype:{dtype}" for dtype in dtypes & {"bool", "int64", "uint64", "float64"}}
        assert wide <= vector.requires or vector.desc is not None, vector.id
        if "Overflow" in vector.flags:
            assert "overflow:wrap" in vector.requires, vector.id
