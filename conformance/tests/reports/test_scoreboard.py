"""The scoreboard: counts that add up, and a reason for every failure that is checked in."""

import json
import platform
import shutil
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import cli
from dmlax_conformance.errors import WrongUsage
from dmlax_conformance.format.vectors import Vector, load_all
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.scoreboard import commands, record
from dmlax_conformance.scoreboard.parts import merged
from dmlax_conformance.suite.controls import Nothing
from dmlax_conformance.suite.runner import run

FOLDER = Path(__file__).parents[2] / "scoreboard"
NEWEST = sorted(FOLDER.glob("[0-9]*.json"))[-1]
IMPLEMENTATIONS = {"dmlax", "oracle", "numpy", "jnp", "onnxruntime", "onnx_reference", "torch"}


@pytest.fixture(scope="module")
def newest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(NEWEST.read_text())
    return found


@pytest.fixture(scope="module")
def reasons() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "reasons.json").read_text())
    return found


def explained(newest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what needs a reason: answers to valid calls and to descs."""
    for name, entry in newest["implementations"].items():
        for answer in entry["answers"]:
            if answer["kind"] != "refusals":
                yield from ((name, one) for one in answer["ids"])


def test_every_failure_has_exactly_one_reason(
    newest: dict[str, Any], reasons: list[dict[str, Any]]
) -> None:
    for name, one in explained(newest):
        assert sum(covers(each, name, one) for each in reasons) == 1, (name, one)


def test_every_reason_and_pattern_is_needed(
    newest: dict[str, Any], reasons: list[dict[str, Any]]
) -> None:
    failures = list(explained(newest))
    for each in reasons:
        for name in each["implementations"]:
            assert any(covers(each, name, one) for who, one in failures if who == name), each
        for pattern in each["ids"]:
            assert any(fnmatch(one, pattern) for _, one in failures), (each["why"], pattern)


def covers(reason: dict[str, Any], name: str, one: str) -> bool:
    return name in reason["implementations"] and any(fnmatch(one, p) for p in reason["ids"])


def test_every_implementation_is_there_and_saw_every_vector(newest: dict[str, Any]) -> None:
    assert newest["implementations"].keys() == IMPLEMENTATIONS
    for name, entry in newest["implementations"].items():
        seen = [
            sum(sum(counts.values()) for own in operators.values() for counts in own.values())
            for operators in entry["variants"].values()
        ]
        assert max(seen) == entry["vectors"], name


def test_the_lists_have_the_counts_of_the_table(newest: dict[str, Any]) -> None:
    for entry in newest["implementations"].values():
        table = Counter[str]()
        for operators in entry["variants"].values():
            for own in operators.values():
                for counts in own.values():
                    table.update(counts)
        listed = Counter[str]()
        for answer in entry["answers"]:
            listed[answer["verdict"]] += len(answer["ids"]) * len(answer["variants"])
        assert listed == {k: table[k] for k in record.KEPT if table[k]}
        assert sum(each["count"] for each in entry["unsupported"]) == table["unsupported"]


def test_the_oracle_and_dmlax_fail_nothing(newest: dict[str, Any]) -> None:
    for name in ("oracle", "dmlax"):
        assert newest["implementations"][name]["answers"] == []


def test_a_control_is_recorded_as_it_is(suite: list[Vector]) -> None:
    adapter = Nothing()
    few = suite[:50]
    entry = record.entry(adapter, list(run(adapter, few, adapter.variants)))
    assert {one for answer in entry["answers"] for one in answer["ids"]} == {v.id for v in few}
    assert entry["unsupported"] == []


@pytest.fixture
def few(tmp_path: Path) -> list[str]:
    """Return the option for a folder with the vectors of one operator."""
    own = "element_wise_dequantize_linear"
    shutil.copytree(vectors_dir() / own, tmp_path / "vectors" / own)
    return ["--vectors", str(tmp_path / "vectors")]


def test_the_command_writes_a_record(
    tmp_path: Path, newest: dict[str, Any], few: list[str]
) -> None:
    path, again = tmp_path / "out.json", tmp_path / "again.json"
    names = ["--implementation", "empty", "--implementation", "numpy", *few]
    for output in (path, again):
        assert cli.main(["scoreboard", "--output", str(output), *names]) == 0
    written = json.loads(path.read_text())
    assert written.keys() == newest.keys()
    assert written["implementations"].keys() == {"empty", "numpy"}
    assert written["implementations"]["empty"]["answers"] == []
    assert again.read_bytes() == path.read_bytes()


def test_the_command_keeps_other_implementations(tmp_path: Path, few: list[str]) -> None:
    path = tmp_path / "out.json"
    for name in ("numpy", "empty"):
        assert cli.main(["scoreboard", "--output", str(path), "--implementation", name, *few]) == 0
    entries = json.loads(path.read_text())["implementations"]
    assert entries.keys() == {"empty", "numpy"}
    assert {entry["vectors"] for entry in entries.values()} == {len(load_all(Path(few[1])))}


@pytest.mark.parametrize("text", ["{}", "[", '{"schema": "scoreboard-1", "implementations": {}}'])
def test_the_command_leaves_another_file_alone(tmp_path: Path, few: list[str], text: str) -> None:
    path = tmp_path / "out.json"
    path.write_text(text)
    assert cli.main(["scoreboard", "--output", str(path), "--implementation", "empty", *few]) == 2
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "named"),
    [("flags : fma avx2 avx512_vnni", " with avx2, avx512_vnni"), ("flags : sse2", ""), (None, "")],
)
def test_the_machine_is_named_with_its_instructions(
    tmp_path: Path, text: str | None, named: str
) -> None:
    facts = tmp_path / "cpuinfo"
    if text is not None:
        facts.write_text(text)
    assert commands.machine(facts) == f"{platform.system()} {platform.machine()}{named}"


def test_an_unknown_implementation_writes_nothing(tmp_path: Path, few: list[str]) -> None:
    path = tmp_path / "out.json"
    names = ["--implementation", "nobody", *few]
    assert cli.main(["scoreboard", "--output", str(path), *names]) == 2
    assert not path.exists()


def test_parts_make_the_entry_of_the_whole(tmp_path: Path, few: list[str]) -> None:
    whole, made = tmp_path / "whole.json", tmp_path / "made.json"
    names = ["--implementation", "raising", "--implementation", "numpy", *few]
    assert cli.main(["scoreboard", "--output", str(whole), *names]) == 0
    parts = [str(tmp_path / f"{part}.json") for part in (3, 1, 2)]
    for path in parts:
        part = f"--part={Path(path).stem}/3"
        assert cli.main(["scoreboard", "--output", path, part, *names]) == 0
    assert cli.main(["scoreboard", "--output", str(made), "--merge", *parts, *few]) == 0
    assert made.read_bytes() == whole.read_bytes()


def facts(part: str, **changed: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"variants": {"eager": {}}, "answers": [], "unsupported": []}
    return {"date": "2026-11-23", "vectors": 2, "part": part, **empty, **changed}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([facts("1/2")], "the parts are 1/2"),
        ([facts("1/2"), facts("1/2")], "the parts are 1/2, 1/2"),
        ([facts("1/2"), facts("2/2"), facts("1/3")], "the parts are 1/2, 1/3, 2/2"),
        ([facts("1/2"), facts("2/2", date="2026-11-24")], "date is 2026-11-23 in one part"),
        ([facts("1/1", vectors=3)], "parts of 3 vectors, not of these 2"),
    ],
)
def test_parts_of_no_whole_are_refused(parts: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        merged([{"numpy": each} for each in parts], ["a", "b"])


@pytest.mark.parametrize("part", ["0/3", "4/3", "1/0", "1", "a/b"])
def test_a_part_is_one_of_as_many_as_there_are(tmp_path: Path, part: str) -> None:
    path = tmp_path / "out.json"
    with pytest.raises(SystemExit):
        cli.main(["scoreboard", "--output", str(path), "--implementation=empty", f"--part={part}"])


def test_implementations_are_run_or_merged(tmp_path: Path, few: list[str]) -> None:
    path = str(tmp_path / "out.json")
    part = ["--part=1/1", "--implementation=empty"]
    assert cli.main(["scoreboard", "--output", path, *part, *few]) == 0
    for wrong in ([], ["--merge", path, "--implementation=empty"], ["--merge", path, "--part=1/1"]):
        assert cli.main(["scoreboard", "--output", path, *wrong, *few]) == 2
