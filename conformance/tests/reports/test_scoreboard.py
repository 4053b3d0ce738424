"""The scoreboard: counts that add up, and a reason for every failure that is checked in."""

import json
import platform
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from dmlax_conformance import cli
from dmlax_conformance.errors import WrongUsage
from dmlax_conformance.format.vectors import Vector, load_all
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.reports import scoreboard
from dmlax_conformance.runner.controls import Nothing
from dmlax_conformance.runner.run import run

FOLDER = Path(__file__).parents[2] / "scoreboard"
NEWEST: dict[str, Any] = json.loads(sorted(FOLDER.glob("[0-9]*.json"))[-1].read_text())
ENTRIES: dict[str, Any] = NEWEST["implementations"]
REASONS: list[dict[str, Any]] = json.loads((FOLDER / "reasons.json").read_text())


def verdicts(operators: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the kinds of a variant with the verdicts, and how many or which vectors have them."""
    for kinds in operators.values():
        for kind, found in kinds.items():
            yield from ((kind, verdict, ids) for verdict, ids in found.items())


def verdicts_of(entry: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [each for operators in entry["variants"].values() for each in verdicts(operators)]


def test_every_failure_has_one_reason_and_every_reason_a_failure() -> None:
    """Only refusals, and verdicts that are counted, need no reason."""
    used = set[tuple[int, str, str]]()
    for name, entry in ENTRIES.items():
        for kind, verdict, ids in verdicts_of(entry):
            if kind == "refusals" or verdict not in scoreboard.LISTED:
                continue
            for one in ids:
                reasons = {
                    (number, name, pattern)
                    for number, reason in enumerate(REASONS)
                    for pattern in reason["ids"]
                    if name in reason["implementations"] and fnmatch(one, pattern)
                }
                assert len({number for number, _, _ in reasons}) == 1, (name, one)
                used |= reasons
    for number, reason in enumerate(REASONS):
        assert {x for n, x, _ in used if n == number} == set(reason["implementations"]), reason
        assert {x for n, _, x in used if n == number} == set(reason["ids"]), reason


def test_every_implementation_is_there_and_its_counts_add_up() -> None:
    names = {"dmlax", "oracle", "numpy", "jnp", "onnxruntime", "onnx_reference", "torch"}
    assert ENTRIES.keys() == names
    known = {vector.id for vector in load_all()}
    for name, entry in ENTRIES.items():
        for _, verdict, ids in verdicts_of(entry):
            assert isinstance(ids, list) == (verdict in scoreboard.LISTED)
            assert isinstance(ids, int) or set(ids) <= known
        seen = [
            sum(
                found if isinstance(found, int) else len(found) for *_, found in verdicts(operators)
            )
            for operators in entry["variants"].values()
        ]
        assert max(seen) == entry["vectors"], name
        declined = [count for _, v, count in verdicts_of(entry) if v == "unsupported"]
        reasons = [x["count"] for kind in entry["unsupported"].values() for x in kind.values()]
        assert sum(reasons) == sum(declined), name
    for name in ("oracle", "dmlax"):
        listed = [v for _, v, ids in verdicts_of(ENTRIES[name]) if isinstance(ids, list)]
        assert (listed, ENTRIES[name]["refusals"]) == ([], {})


def test_a_control_is_recorded_as_it_is(suite: list[Vector]) -> None:
    few = [vector for vector in suite if vector.operator == "max_pooling"][::9]
    sums = scoreboard.sums(run(Nothing(), few, Nothing.variants))
    listed = [one for *_, ids in verdicts_of(sums) if isinstance(ids, list) for one in ids]
    assert sorted(listed) == sorted(vector.id for vector in few)
    refused = [vector for vector in few if not vector.is_valid and vector.desc is None]
    assert sum(sums["refusals"].values()) == len(refused) > 0
    assert sums["unsupported"] == {}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Return a function that runs the command with some vectors of one operator."""
    folder = Path("element_wise_dequantize_linear/core")
    shutil.copytree(vectors_dir() / folder, tmp_path / "vectors" / folder)

    def command(output: Path, *options: object) -> int:
        named = ["--vectors", str(tmp_path / "vectors"), "--output", str(output)]
        return cli.main(["scoreboard", *named, *map(str, options)])

    return command


def test_the_command_writes_a_record_and_keeps_other_implementations(
    tmp_path: Path, write: Any
) -> None:
    path, together, made = (tmp_path / name for name in ("out.json", "together.json", "made.json"))
    names = ["--implementation=empty", "--implementation=numpy"]
    assert [write(path, name) for name in reversed(names)] == [0, 0]
    assert write(together, *names) == 0
    assert together.read_bytes() == path.read_bytes()
    written = json.loads(path.read_text())
    assert written.keys() == NEWEST.keys()
    assert written["implementations"].keys() == {"empty", "numpy"}
    count = len(load_all(tmp_path / "vectors"))
    for name, entry in written["implementations"].items():
        assert entry.keys() == ENTRIES["numpy"].keys()
        assert entry["vectors"] == count
        assert bool(entry["refusals"]) == (name == "numpy")
    parts = [tmp_path / f"{part}.json" for part in (3, 1, 2)]
    assert [write(part, f"--part={part.stem}/3", *names) for part in parts] == [0, 0, 0]
    assert write(made, "--merge", *parts) == 0
    assert made.read_bytes() == path.read_bytes()


def test_the_machine_is_named_with_its_instructions(tmp_path: Path) -> None:
    facts, name = tmp_path / "cpuinfo", f"{platform.system()} {platform.machine()}"
    assert scoreboard.machine(facts) == name
    facts.write_text("flags : sse2")
    assert scoreboard.machine(facts) == name
    facts.write_text("flags : fma avx2 avx512_vnni")
    assert scoreboard.machine(facts) == f"{name} with avx2, avx512_vnni"


def facts(part: str, **changed: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"variants": {"eager": {}}, "refusals": {}, "unsupported": {}}
    return {"date": "2026-11-23", "vectors": 2, "part": part, **empty, **changed}


def test_parts_of_no_whole_are_refused() -> None:
    for parts, said in [
        ([facts("1/2")], "the parts are 1/2"),
        ([facts("1/2"), facts("1/2")], "the parts are 1/2, 1/2"),
        ([facts("1/2"), facts("2/2"), facts("1/3")], "the parts are 1/2, 1/3, 2/2"),
        ([facts("1/2"), facts("2/2", date="2026-11-24")], "date is 2026-11-23 in one part"),
        ([facts("1/1", vectors=3)], "parts of 3 vectors, not of these 2"),
    ]:
        with pytest.raises(WrongUsage, match=said):
            scoreboard.merged([{"numpy": each} for each in parts], 2)


def test_wrong_usage_writes_nothing(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "out.json"
    merge, empty = f"--merge={path}", "--implementation=empty"
    for options in ([], [merge, empty], [merge, "--part=1/1"], ["--implementation=nobody"]):
        assert write(path, *options) == 2
    for part in ("0/3", "4/3", "1/0", "1", "a/b"):
        with pytest.raises(SystemExit):
            write(path, empty, f"--part={part}")
    assert not path.exists()
    for text in ("{}", "[", '{"schema": "scoreboard-2", "implementations": {}}'):
        path.write_text(text)
        assert write(path, empty) == 2
        assert path.read_text() == text
