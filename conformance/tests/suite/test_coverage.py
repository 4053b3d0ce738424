"""A clause without a vector that keeps it, or without one that breaks it, is a complaint."""

from pathlib import Path

import pytest

from dmlax_conformance import cli
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators.clauses import CLAUSES, UNBREAKABLE
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.suite import coverage


def test_the_suite_covers_every_clause(suite: list[Vector]) -> None:
    assert list(coverage.problems(suite)) == []
    assert len(UNBREAKABLE) < len(CLAUSES) / 3
    assert set(UNBREAKABLE.values()) == {"result", "open", "absent"}


def test_every_clause_needs_a_valid_vector(suite: list[Vector]) -> None:
    for clause in sorted(CLAUSES)[::4]:
        rest = [v for v in suite if not (v.is_valid and clause in v.clause)]
        assert f"{clause}: no valid vector" in list(coverage.problems(rest))


def test_every_clause_that_can_be_broken_needs_an_invalid_vector(suite: list[Vector]) -> None:
    for clause in sorted(CLAUSES.keys() - UNBREAKABLE.keys())[::4]:
        rest = [v for v in suite if v.is_valid or clause not in v.clause]
        complaint = f"{clause}: no invalid vector, and not marked as one that no call can break"
        assert complaint in list(coverage.problems(rest))


def test_a_mark_must_hold(suite: list[Vector]) -> None:
    marked = UNBREAKABLE | {"NZC-3": "result"}
    found = list(coverage.problems(suite, CLAUSES, marked))
    assert found == ["NZC-3: marked 'result', but a vector breaks it"]
    without = {clause: word for clause, word in UNBREAKABLE.items() if clause != "NZC-1"}
    (found_one,) = coverage.problems(suite, CLAUSES, without)
    assert found_one.startswith("NZC-1: no invalid vector")


def test_a_clause_must_be_known(suite: list[Vector]) -> None:
    clauses = {clause: text for clause, text in CLAUSES.items() if clause != "NZC-1"}
    assert list(coverage.problems(suite, clauses)) == ["NZC-1: is no clause"]


def test_lint_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nonzero_coordinates" / "invalid.json"
    path.parent.mkdir()
    text = (vectors_dir() / "nonzero_coordinates" / "invalid.json").read_text()
    path.write_text(text.replace('["NZC-7"]', '["NZC-8"]'))
    assert cli.main(["lint", "--vectors", str(tmp_path)]) == 3
    assert "NZC-7: no invalid vector" in capsys.readouterr().out


def test_every_operator_has_every_size_class(suite: list[Vector]) -> None:
    operators = sorted({vector.operator for vector in suite})
    assert list(coverage.size_problems(suite, operators)) == []
    assert len(coverage.COUNTS) == 12
    calls = [vector for vector in suite if vector.is_valid and vector.desc is None]
    for operator in operators:
        for count in coverage.COUNTS:
            rest = [v for v in calls if (v.operator, coverage.count_of(v)) != (operator, count)]
            expected = [f"{operator}: no valid call of {count} elements"]
            assert list(coverage.size_problems(rest, operators)) == expected


def test_only_valid_calls_count_for_a_size_class(suite: list[Vector]) -> None:
    others = [vector for vector in suite if vector.desc is not None or not vector.is_valid]
    assert len(list(coverage.size_problems(others, ["convolution_integer"]))) == 12
