"""Pairs of value classes and structures, whose holes `lint` names; bugs at each structure."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dmlax_conformance import cli
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators._shared import cross
from dmlax_conformance.operators._shared.cross import Cross, Meeting, takes_part
from dmlax_conformance.suite import corners, coverage
from dmlax_conformance.suite.bugs import matrix, structured
from dmlax_conformance.suite.bugs.catalogue import catalogue

TABLES = {name: row.cross for name, row in OPERATORS.items() if row.cross is not None}
SHORTEST = "quantized_lookup"  # the operator whose coverage takes the least time
LARGE = 500  # elements
DRAWN = 1  # bug of each third operator is tried here; `nox -s kill_rate` tries all


@pytest.fixture(scope="module")
def calls(suite: list[Vector]) -> list[Vector]:
    """Return the calls whose elements count, a fourth of the large ones that are digests."""
    own = [vector for vector in suite if takes_part(vector)]
    large = [each for each in own if each.has_digests and coverage.count_of(each) > LARGE]
    left_out = {vector.id for vector in large} - {vector.id for vector in large[::4]}
    return [vector for vector in own if vector.id not in left_out]


@pytest.mark.parametrize("operator", TABLES)
def test_a_pair_without_a_vector_is_a_hole(operator: str) -> None:
    holes = [f"{operator}: no vector has {a!r} at {at!r}" for a, at in TABLES[operator].pairs()]
    assert sorted(coverage.cross_problems([], [operator])) == sorted(holes)


def table(**changes: object) -> Cross[np.ndarray]:
    """Return the table of calls that are arrays."""
    made: Cross[np.ndarray] = Cross(
        view=lambda vector: np.zeros(0),
        classes={"even": lambda view: view % 2 == 0, "any": lambda view: True},
        structures={"tail": lambda view: view > 1},
        impossible={},
    )
    return replace(made, **changes)


def test_impossible_pairs_are_patterns_with_reasons() -> None:
    apart = table(impossible=cross.impossible("there is none", ("e*", "tail")))
    assert apart.pairs() == {("any", "tail")}
    assert apart.why_not("even", "tail") == "there is none"
    assert apart.why_not("odd", "tail") is None


def test_a_class_is_where_two_structures_meet(suite: list[Vector]) -> None:
    class View(np.ndarray):
        count = 4

    own = table(
        view=lambda vector: np.arange(4).view(View),
        structures={"low": lambda view: view < 2, "tail": lambda view: view > 2},
        meeting=Meeting(("*",), ("low",), ("low", "tail")),
    )
    assert own.triples() == {(a, "low", at) for a in ("even", "any") for at in ("low", "tail")}
    assert own.met(suite[0]) == {("even", "low", "low"), ("any", "low", "low")}
    assert replace(own, meeting=None).triples() == set()


def test_a_pair_that_is_called_impossible_and_covered_is_a_complaint(
    suite: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, own = SHORTEST, TABLES[SHORTEST]
    name, at = sorted(own.pairs())[0]
    wrong = replace(own, impossible={**own.impossible, (name, at): "not so"})
    monkeypatch.setattr(type(OPERATORS[operator]), "cross", wrong)
    assert list(coverage.cross_problems(suite, [operator])) == [
        f"{operator}: {name!r} at {at!r} is called impossible, but a vector has it"
    ]


def test_whole_vectors_and_the_tail_after_them_share_a_row() -> None:
    found = cross.registers("x", lambda view: view, len, [4])
    of_eleven = {name: np.flatnonzero(test(np.arange(11))).tolist() for name, test in found.items()}
    assert of_eleven == {
        "x: in whole vectors of 4": [*range(8)],
        "x: after whole vectors of 4": [8, 9, 10],
    }
    assert not any(test(np.arange(3)).any() for test in found.values())


def drawn(operator: str) -> Iterator[str]:
    arithmetic = [each for each in catalogue().values() if structured.structures(each)]
    own = sorted(each.id for each in arithmetic if each.operator == operator)
    yield from random.Random(operator).sample(own, DRAWN)


@pytest.mark.parametrize("operator", sorted(TABLES)[::3])
def test_a_bug_is_killed_at_each_structure_by_two_vectors(
    operator: str, calls: list[Vector]
) -> None:
    subjects = matrix.prepare(each for each in calls if each.operator == operator)
    for name in drawn(operator):
        trial = matrix.judge(catalogue()[name], subjects)
        assert trial.only_at
        assert trial.missed == []


def test_a_bug_of_places_has_no_structures() -> None:
    names = "intconv-padding-is-one", "intconv-sizes-one-short", "intconv-strides-reversed"
    assert [structured.structures(catalogue()[name]) for name in names] == [[], [], []]


def test_the_command_counts_pairs_and_says_where_no_table_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, own = SHORTEST, TABLES[SHORTEST]
    assert cli.main(["coverage", "--operator", operator]) == 0
    head, row = (line.split() for line in capsys.readouterr().out.splitlines()[:2])
    assert head[-3:] == ["impossible", "meetings", "corners"]
    number = str(len(own.pairs()))
    assert row[:5] == [operator, str(len(own.classes)), str(len(own.structures)), number, number]
    assert row[-4] == str(len(own.triples()))
    assert row[-1] == str(len(corners.counts_of(operator, ())))
    assert cli.main(["coverage", "--operator", operator, "--vectors", str(tmp_path)]) == 3
    assert "no vector has" in capsys.readouterr().out
    monkeypatch.setattr(type(OPERATORS[operator]), "cross", None)
    assert cli.main(["coverage", "--operator", operator]) == 0
    assert "no table" in capsys.readouterr().out


def test_a_corner_without_a_vector_is_a_problem(calls: list[Vector]) -> None:
    own = [each for each in calls if each.operator == SHORTEST]
    names = corners.counts_of(SHORTEST, own)
    assert list(corners.problems(own, [SHORTEST])) == [
        f"{SHORTEST}: no vector at the corner {name!r}"
        for name, count in names.items()
        if not count
    ]
    assert len(list(corners.problems([], [SHORTEST]))) == len(corners.counts_of(SHORTEST, []))
