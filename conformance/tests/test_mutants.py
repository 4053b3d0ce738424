"""Planted bugs are killed, what is permitted passes, and the controls score nothing."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.adapters.base import Adapter
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators.clauses import CLAUSES
from dmlax_conformance.operators.topics import PREFIXES
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.mutants import matrix
from dmlax_conformance.suite.mutants.catalogue import GROUPS, catalogue
from dmlax_conformance.suite.mutants.record import HONEST, Mutant

LEAST = 120
PLANTED = [mutant for mutant in catalogue().values() if mutant.must_kill]
PERMITTED = [mutant for mutant in catalogue().values() if not mutant.must_kill]


# -- the catalogue -----------------------------------------------------------------------------


def test_without_a_bug_every_vector_is_exact(suite: list[Vector]) -> None:
    results = list(runner.run(cast(Adapter, HONEST), suite, ["eager"]))
    assert {r.vector.id: r.outcome for r in results if r.verdict != "exact"} == {}
    assert len(results) == len(suite)


def test_the_catalogue_is_large_enough_everywhere() -> None:
    assert len(PLANTED) >= LEAST
    counts = Counter((mutant.operator, mutant.group) for mutant in PLANTED)
    assert set(counts) == {(operator, group) for operator in PREFIXES for group in GROUPS}
    assert min(counts.values()) >= 20


def test_every_mutant_names_its_operator_and_known_clauses() -> None:
    for mutant in catalogue().values():
        assert mutant.id.startswith(PREFIXES[mutant.operator])
        assert mutant.clause
        assert set(mutant.clause) <= set(CLAUSES), mutant.id
        assert mutant.about


def test_every_clause_has_a_bug() -> None:
    broken = {clause for mutant in PLANTED for clause in mutant.clause}
    implied = {
        *("quantize-same-dimension-count", "dequantize-same-dimension-count"),
        *("qconv-group-count", "intconv-group-count"),
    }
    assert set(CLAUSES) - broken == implied


def test_the_readme_publishes_the_catalogue() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    counts = Counter((mutant.operator, mutant.group) for mutant in catalogue().values())
    for operator in PREFIXES:
        planted = [counts[operator, group] for group in GROUPS]
        cells = [f"{n} / {n}" for n in (*planted, sum(planted), counts[operator, "permitted"])]
        assert f"| `{operator}` | {' | '.join(cells)} |" in readme


# -- the vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", PREFIXES)
def test_every_bug_is_killed_by_a_vector_about_its_clause(
    operator: str, suite: list[Vector]
) -> None:
    mine = [mutant for mutant in PLANTED if mutant.operator == operator]
    assert [m.id for m in mine if matrix.first_kill(m, suite) is None] == []


@pytest.mark.parametrize("operator", PREFIXES)
def test_what_is_permitted_passes(operator: str, suite: list[Vector]) -> None:
    mine = [mutant for mutant in PERMITTED if mutant.operator == operator]
    assert mine
    trials = [matrix.judge(mutant, suite) for mutant in mine]
    assert [(t.mutant, t.fail, t.error) for t in trials if t.fail or t.error] == []


def test_permitted_variants_differ_where_the_vectors_allow_it(suite: list[Vector]) -> None:
    for name in ("quantize-permitted-nan-highest", "qconv-permitted-last-violation"):
        assert matrix.judge(catalogue()[name], suite).permitted
    assert matrix.judge(catalogue()["qconv-permitted-no-strides"], suite).unsupported


# -- the controls ------------------------------------------------------------------------------


CONTROLS = {"empty": "unsupported", "nothing": "fail", "raising": "error", "zeros": "fail"}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_passes_nothing(name: str, suite: list[Vector]) -> None:
    results = list(runner.run(adapters.start(name), suite, ["eager"]))
    assert len(results) == len(suite)
    assert {result.verdict for result in results} == {CONTROLS[name]}


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a folder of two files."""
    for name in ("nonzero_coordinates/floats", "element_wise_quantize_linear/special"):
        target = tmp_path / f"{name}.json"
        target.parent.mkdir()
        shutil.copy(vectors_dir() / f"{name}.json", target)
    return tmp_path


def mutate(root: Path, *arguments: str) -> int:
    return cli.main(["mutate", "--vectors", str(root), "--jobs", "1", *arguments])


def test_killed_bugs_exit_0_and_name_their_killers(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = "nonzero-flushes-float32", tmp_path / "matrix.json"
    assert mutate(small, "--mutant", name, "--json", str(out), "--matrix", "--never-alone") == 0
    shown = capsys.readouterr().out
    assert f"{name}: killed by nonzero-float32-subnormal" in shown
    assert "1 / 1" in shown
    assert "floats:1" in shown
    assert "nonzero-float32-nan" in shown
    value = json.loads(out.read_text())
    (line,) = value["mutants"]
    assert line["killed_by"] == value["cover"] == ["nonzero-float32-subnormal"]
    assert line["topics"] == {"floats": 1}
    assert value["only_killers"] == {"nonzero-float32-subnormal": [name]}
    assert "nonzero-float32-subnormal" not in value["never_alone"]
    assert value["survivors"] == []


def test_a_survivor_exits_1_and_names_its_clause(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mutate(small, "--mutant", "nonzero-refuses-rank-8") == 1
    assert "survives: nonzero-refuses-rank-8 (NZC-8)" in capsys.readouterr().out


def test_a_false_alarm_exits_1(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "quantize-permitted-nan-highest"
    assert mutate(small, "--mutant", name) == 0
    path = small / "element_wise_quantize_linear" / "special.json"
    value = json.loads(path.read_text())
    for vector in value["vectors"]:
        for output in vector["expect"].get("outputs", {}).values():
            if output.pop("listed", None):
                output["compare"] = "exact"
    path.write_text(json.dumps(value))
    assert mutate(small, "--mutant", name) == 1
    shown = capsys.readouterr().out
    assert f"permitted, but a vector fails it: {name}" in shown
    assert "quantize-nan-float32-int8" in shown


def test_a_crash_is_no_kill(suite: list[Vector]) -> None:
    def crash(*arguments: Any) -> Any:
        raise ZeroDivisionError

    name = "nonzero-flushes-float32"
    made = replace(HONEST, nonzero=crash)  # type: ignore[arg-type]
    broken = Mutant(name, "nonzero_coordinates", ("NZC-2",), "crashes", made)
    trial = matrix.judge(broken, suite)
    assert trial.error
    assert not trial.fail
    result = matrix.Matrix.of([trial], suite)
    assert not result.is_fine
    assert [each.mutant for each in result.survivors] == [name]


def test_a_kill_by_a_vector_about_something_else_is_told(
    small: Path, suite: list[Vector], capsys: pytest.CaptureFixture[str]
) -> None:
    assert mutate(small, "--mutant", "nonzero-count-plus-1") == 0
    shown = capsys.readouterr().out
    assert "killed only by vectors about other clauses: nonzero-count-plus-1" in shown


def test_processes_give_the_same_trials(small: Path) -> None:
    names = ["nonzero-flushes-float32", "quantize-permitted-nan-highest"]
    assert list(matrix.run(names, small, 2)) == list(matrix.run(names, small, 1))


def test_the_catalogue_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mutate", "--operator", "convolution_integer", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "intconv-strides-swapped" in shown
    assert "qconv-strides-swapped" not in shown


def test_an_unknown_mutant_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mutate", "--mutant", "nonsense"]) == 2
    assert "no such mutant" in capsys.readouterr().err
