"""Planted bugs are killed, what is permitted passes, and the controls score nothing."""

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dmlax_conformance import adapters, cli
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators._shared.call_rules import need
from dmlax_conformance.operators.clauses import CLAUSES
from dmlax_conformance.operators.rules import RULES
from dmlax_conformance.operators.topics import PREFIXES
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import runner
from dmlax_conformance.suite.bugs import matrix
from dmlax_conformance.suite.bugs.catalogue import GROUPS, ROOMS, catalogue
from dmlax_conformance.suite.bugs.matrix import Subject
from dmlax_conformance.suite.bugs.record import VALUES, Bug, correct
from dmlax_conformance.suite.bugs.refusals import Rules

PLANTED = [bug for bug in catalogue().values() if bug.must_kill]
PERMITTED = [bug for bug in catalogue().values() if not bug.must_kill]
SHARE = 40  # one bug in so many is tried here; `nox -s kill_rate` tries all


@pytest.fixture(scope="module")
def subjects(suite: list[Vector]) -> list[Subject]:
    """Return the vectors whose elements are listed; `nox -s kill_rate` takes all."""
    return matrix.prepare(vector for vector in suite if not vector.has_digests)


@pytest.fixture(scope="module")
def others(suite: list[Vector]) -> Callable[[str], list[Subject]]:
    """Return a function that prepares an operator's other vectors, the digests' elements found."""
    return cache(
        lambda name: matrix.prepare(v for v in suite if v.has_digests and v.operator == name)
    )


def sample(bugs: list[Bug], operator: str) -> list[Bug]:
    """Draw a share of an operator's bugs."""
    mine = [bug for bug in bugs if bug.operator == operator]
    return random.Random(operator).sample(mine, -(-len(mine) // SHARE))


# -- the catalogue -----------------------------------------------------------------------------


def test_there_are_bugs_of_every_kind() -> None:
    counts = Counter((bug.operator, bug.group) for bug in PLANTED)
    groups = {name: GROUPS if row.tables else GROUPS[:-1] for name, row in OPERATORS.items()}
    assert set(counts) == {(name, group) for name, own in groups.items() for group in own}
    assert min(counts.values()) >= 15


def test_every_bug_names_its_operator_and_known_clauses() -> None:
    for bug in catalogue().values():
        assert bug.id.startswith(PREFIXES[bug.operator])
        assert bug.clause
        assert set(bug.clause) <= set(CLAUSES), bug.id
        assert bug.about


def test_every_clause_has_a_bug() -> None:
    broken = {clause for bug in PLANTED for clause in bug.clause}
    implied = {
        *("quantize-same-dimension-count", "dequantize-same-dimension-count"),
        *("qconv-group-count", "intconv-group-count"),
        *("avgpool-same-dimension-count", "maxpool-same-dimension-count"),
    }
    assert set(CLAUSES) - broken == implied


def checked(operator: str, suite: list[Vector]) -> set[tuple[str, str]]:
    """Return the code and field of every rule that the oracle checks in valid calls."""
    found = set()

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "call" and frame.f_code is need.__code__:
            found.add((frame.f_locals["code"], frame.f_locals["field"]))

    sys.setprofile(note)
    try:
        for vector in suite:
            if vector.operator == operator and vector.desc is None and vector.is_valid:
                RULES[operator](vector.attributes, vector.inputs, vector.outputs)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("rules", [room.RULES for room in ROOMS], ids=lambda rules: rules.operator)
def test_bugs_are_derived_from_every_rule(rules: Rules, suite: list[Vector]) -> None:
    derived = {(code, field) for code, field, _ in rules.pairs()}
    assert derived == checked(rules.operator, suite)


def test_the_readme_publishes_the_catalogue() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    counts = Counter((bug.operator, bug.group) for bug in catalogue().values())
    for operator in PREFIXES:
        planted = [counts[operator, group] for group in GROUPS]
        cells = [f"{n} / {n}" for n in (*planted, sum(planted), counts[operator, "permitted"])]
        assert f"\n| `{operator}` | {' | '.join(cells)} |" in readme
    derived = sum(bug.is_derived for bug in PLANTED)
    assert f"{derived:,} of the {len(PLANTED):,} bugs are derived" in readme


# -- the vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", PREFIXES)
def test_bugs_are_killed_by_a_vector_about_their_clause(
    operator: str, subjects: list[Subject], others: Callable[[str], list[Subject]]
) -> None:
    alive = sample(PLANTED, operator)
    for found in (lambda: subjects, lambda: others(operator)):
        alive = [bug for bug in alive if matrix.first_kill(bug, found()) is None]
    assert [bug.id for bug in alive] == []


@pytest.mark.parametrize("operator", PREFIXES)
def test_what_is_permitted_passes(operator: str, subjects: list[Subject]) -> None:
    some = subjects[::3]
    trials = [matrix.judge(bug, some) for bug in sample(PERMITTED, operator)]
    assert [(t.bug, t.fail, t.error) for t in trials if t.fail or t.error] == []


def test_permitted_variants_differ_where_the_vectors_allow_it(subjects: list[Subject]) -> None:
    for name in ("quantize-permitted-nan-highest", "qconv-permitted-last-violation"):
        assert matrix.judge(catalogue()[name], subjects).permitted
    assert matrix.judge(catalogue()["qconv-permitted-no-strides"], subjects).unsupported


def test_a_bug_that_equals_the_correct_implementation_survives(subjects: list[Subject]) -> None:
    made = replace(correct("nonzero_coordinates"))
    same = Bug("nonzero-same", "nonzero_coordinates", ("NZC-2",), made, VALUES)
    trial = matrix.judge(same, subjects)
    assert trial == matrix.Trial("nonzero-same", (), (), (), ())
    assert matrix.first_kill(same, subjects) is None


# -- the controls ------------------------------------------------------------------------------


CONTROLS = {"empty": "unsupported", "nothing": "fail", "raising": "error", "zeros": "fail"}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_passes_nothing(name: str, subjects: list[Subject]) -> None:
    given = [subject.vector for subject in subjects[::3]]
    results = list(runner.run(adapters.start(name), given, ["eager"]))
    assert len(results) == len(given)
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
    name, out = "nonzero-input-float32-flushed", tmp_path / "matrix.json"
    assert mutate(small, "--bug", name, "--json", str(out), "--matrix", "--never-alone") == 0
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
    assert mutate(small, "--bug", "nonzero-refuses-input-rank-above-7") == 1
    assert "survives: nonzero-refuses-input-rank-above-7 (NZC-8)" in capsys.readouterr().out


def test_a_false_alarm_exits_1(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "quantize-permitted-nan-highest"
    assert mutate(small, "--bug", name) == 0
    path = small / "element_wise_quantize_linear" / "special.json"
    value = json.loads(path.read_text())
    for vector in value["vectors"]:
        for output in vector["expect"].get("outputs", {}).values():
            if output.pop("listed", None):
                output["compare"] = "exact"
    path.write_text(json.dumps(value))
    assert mutate(small, "--bug", name) == 1
    shown = capsys.readouterr().out
    assert f"permitted, but a vector fails it: {name}" in shown
    assert "quantize-nan-float32-int8" in shown


def test_a_crash_is_no_kill(suite: list[Vector], subjects: list[Subject]) -> None:
    def crash(*arguments: Any) -> Any:
        raise ZeroDivisionError

    name = "nonzero-input-float32-flushed"
    made = replace(correct("nonzero_coordinates"), parts={"nonzero": crash})
    broken = Bug(name, "nonzero_coordinates", ("NZC-2",), made, VALUES)
    trial = matrix.judge(broken, subjects)
    assert trial.error
    assert not trial.fail
    result = matrix.Matrix.of([trial], suite)
    assert not result.is_fine
    assert [each.bug for each in result.survivors] == [name]


def test_a_kill_by_a_vector_about_something_else_is_told(
    small: Path, suite: list[Vector], capsys: pytest.CaptureFixture[str]
) -> None:
    assert mutate(small, "--bug", "nonzero-count-plus-1") == 1
    shown = capsys.readouterr().out
    assert "killed only by vectors about other clauses: nonzero-count-plus-1" in shown


def test_processes_give_the_same_trials(small: Path) -> None:
    names = ["nonzero-input-float32-flushed", "quantize-permitted-nan-highest"]
    assert list(matrix.run(names, small, 2)) == list(matrix.run(names, small, 1))


def test_the_catalogue_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mutate", "--operator", "convolution_integer", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "intconv-strides-reversed" in shown
    assert "qconv-strides-reversed" not in shown


def test_an_unknown_bug_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["mutate", "--bug", "nonsense"]) == 2
    assert "no such bug" in capsys.readouterr().err
