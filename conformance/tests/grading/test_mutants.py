"""Mutants are killed, and what is permitted passes."""

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.errors import SpecViolation
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.calls import RULES
from dmlax_conformance.oracle.clauses import CLAUSES
from dmlax_conformance.oracle.operator import dashed
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.runner.adapter import Case
from dmlax_conformance.runner.compare import compare_outputs
from dmlax_conformance.runner.run import case_of
from grading.__main__ import main
from grading.mutants.engine import matrix
from grading.mutants.engine.catalogue import catalogue
from grading.mutants.engine.implementation import broken_rules
from grading.mutants.engine.matrix import Subject
from grading.mutants.engine.mutant import GROUPS, VALUES, Mutant, correct

MUTANTS = [mutant for mutant in catalogue().values() if mutant.must_kill]
PERMITTED = [mutant for mutant in catalogue().values() if not mutant.must_kill]
SHARE = 80  # one mutant in so many is tried here; `nox -s kill_rate` tries all
NONZERO, FLUSHED = "nonzero_coordinates", "nonzero-input-float32-flushed"


@cache
def suite() -> Sequence[Vector]:
    return [vector for vector in vectors.load_all() if not vector.memory]


@cache
def subjects(operator: str, has_digests: bool = False) -> list[Subject]:
    """Return an operator's vectors whose elements are listed, or the others."""
    mine = [vector for vector in suite() if vector.operator == operator]
    return matrix.prepare(vector for vector in mine if vector.has_digests == has_digests)


def sample(mutants: list[Mutant], operator: str) -> list[Mutant]:
    """Draw a share of an operator's mutants."""
    mine = [mutant for mutant in mutants if mutant.operator == operator]
    return random.Random(operator).sample(mine, -(-len(mine) // SHARE))


def is_killed(mutant: Mutant, tried: list[Subject]) -> bool:
    """Return whether a vector about the mutant's clauses kills it."""
    about = (x for x in tried if not {*x.vector.clause}.isdisjoint(mutant.clause))
    return any(matrix.verdict(mutant, subject)[0] == "fail" for subject in about)


def nonzero(**parts: Any) -> Mutant:
    """Return a mutant of NONZERO_COORDINATES with another part, if any."""
    made = correct(NONZERO)
    implementation = replace(made, parts={**made.parts, **parts})
    return Mutant(FLUSHED, NONZERO, ("NZC-2",), implementation, VALUES)


# -- the catalogue -----------------------------------------------------------------------------


def test_there_are_mutants_of_every_kind() -> None:
    counts = Counter((mutant.operator, mutant.group) for mutant in MUTANTS)
    groups = {name: GROUPS if row.tables else GROUPS[:-1] for name, row in OPERATORS.items()}
    assert set(counts) == {(name, group) for name, known in groups.items() for group in known}
    assert min(counts.values()) >= 15


def test_every_mutant_names_known_clauses_and_every_clause_has_a_mutant() -> None:
    for mutant in catalogue().values():
        assert mutant.id.startswith(OPERATORS[mutant.operator].prefix)
        assert mutant.clause
        assert CLAUSES.keys() >= {*mutant.clause}
    implied = {
        *("quantize-same-dimension-count", "dequantize-same-dimension-count"),
        *("qconv-group-count", "intconv-group-count"),
        *("avgpool-same-dimension-count", "maxpool-same-dimension-count"),
    }
    assert set(CLAUSES) - {clause for mutant in MUTANTS for clause in mutant.clause} == implied


def test_merged_mutants_are_gone_and_name_one_that_is_there() -> None:
    (path,) = Path(matrix.__file__).parents[1].glob("merged*.json")
    merged = json.loads(path.read_text())
    assert merged.keys().isdisjoint(catalogue())
    assert catalogue().keys() >= {*merged.values()}


@pytest.mark.parametrize("operator", OPERATORS)
def test_mutants_are_derived_from_every_rule(operator: str) -> None:
    checked = set()

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "call" and frame.f_code.co_name == "need":  # the oracle's function
            checked.add((frame.f_locals["code"], frame.f_locals["field"]))

    calls = [v for v in suite() if v.operator == operator and v.desc is None and v.is_valid]
    sys.setprofile(note)
    try:
        for vector in calls:
            if all(prod(tensor.sizes) < 1000 for tensor in vector.inputs.values()):
                RULES[operator](vector.attributes, vector.inputs, vector.outputs)
    finally:
        sys.setprofile(None)
    accepts = f"{OPERATORS[operator].prefix}-accepts"
    labels = {f"{accepts}-{dashed(field)}-{code.replace('_', '-')}" for code, field in checked}
    assert labels - catalogue().keys() == set()


# -- the vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS)
def test_mutants_are_killed_by_a_vector_about_their_clause(operator: str) -> None:
    alive = sample(MUTANTS, operator)
    for has_digests in (False, True):
        alive = [m for m in alive if not is_killed(m, subjects(operator, has_digests))]
    assert [mutant.id for mutant in alive] == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_permitted_passes(operator: str) -> None:
    some = subjects(operator)[::3]
    trials = [matrix.judge(mutant, some) for mutant in sample(PERMITTED, operator)]
    assert [trial for trial in trials if trial.killed_by or trial.crashed_on] == []


def test_permitted_variants_differ_where_the_vectors_allow_it() -> None:
    for name in ("quantize-permitted-nan-highest", "qconv-permitted-last-violation"):
        mutant = catalogue()[name]
        assert matrix.judge(mutant, subjects(mutant.operator)).permitted_by
    no_strides = catalogue()["qconv-permitted-no-strides"]
    assert matrix.judge(no_strides, subjects(no_strides.operator)).declined


def test_a_mutant_that_equals_the_correct_implementation_survives() -> None:
    trial = matrix.judge(nonzero(), subjects(NONZERO))
    assert not any((trial.killed_by, trial.crashed_on, trial.permitted_by, trial.declined))


def test_a_crash_is_no_kill() -> None:
    def crash(*arguments: Any) -> Any:
        raise ZeroDivisionError

    trial = matrix.judge(nonzero(nonzero=crash), subjects(NONZERO))
    assert trial.crashed_on
    result = matrix.matrix([trial], suite())
    assert result["survivors"] == result["crashes"] == [FLUSHED]


# -- two calls in a row -------------------------------------------------------------------------


KEYS: Mapping[str, Callable[[Any], Hashable]] = {
    "values": lambda own: None,
    "bytes beyond 64": lambda own: (own.dtype.name, own.tobytes()[:64]),
    "bytes between the ends": lambda own: (own.dtype.name, own.tobytes()[:16], own.tobytes()[-16:]),
    "order": lambda own: (own.dtype.name, *sorted(own.reshape(-1).tolist())),
    "data type": lambda own: own.tobytes(),
}
FORGOTTEN = {  # operators and fields
    "values": "intconv qconv avgpool maxpool: Strides Dilations; intconv maxpool: EndPadding;"
    "qconvadd: Dilations FilterTensor; intmatmul qmatmul floatmatmul qadd qmul: BTensor;"
    "gavgpool: InputScaleTensor; lookup: TableTensor; nonzero dynamic: InputTensor",
    "bytes beyond 64": "intconv qconv: FilterTensor FilterZeroPointTensor; lookup: TableTensor;"
    "qconv: FilterScaleTensor; qconvadd: FilterTensor; qmatmul floatmatmul: BScaleTensor;"
    "intmatmul qmatmul floatmatmul qadd qmul: BTensor; avgpool gavgpool: InputScaleTensor;"
    "intmatmul: BZeroPointTensor; quantize: ZeroPointTensor; dequantize: ScaleTensor",
    "bytes between the ends": "intconv: FilterTensor; intmatmul: BTensor",
    "order": "intconv qconv: FilterTensor FilterZeroPointTensor; intmatmul: BTensor;"
    "qconv: FilterScaleTensor; qmatmul floatmatmul: BScaleTensor; lookup: TableTensor",
    "data type": "intconv: FilterTensor; avgpool dequantize nonzero: InputTensor;"
    "intmatmul qmatmul floatmatmul: BTensor; lookup: TableTensor",
}
CACHES = [
    (forgotten, prefix, name)
    for forgotten, places in FORGOTTEN.items()
    for prefixes, names in (place.split(":") for place in places.split(";"))
    for prefix in prefixes.split()
    for name in names.split()
]


def is_wrong(vector: Vector, case: Case) -> bool:
    """Return whether the answer to a case is not what a vector expects."""
    try:
        answer = correct(case.operator).answer(case, broken_rules(case))
    except SpecViolation:
        return True
    expect: Any = vector.expect
    return compare_outputs(expect, answer, vector.desc).verdict != "exact"


@pytest.mark.parametrize(("forgotten", "prefix", "name"), CACHES)
def test_a_pair_of_vectors_shows_a_stale_operand(forgotten: str, prefix: str, name: str) -> None:
    """A cache whose key says too little answers the second call with the first one's operand."""
    known, found = {vector.id: vector for vector in suite()}, []
    for second in (v for v in known.values() if v.after and v.id.startswith(f"{prefix}-")):
        then, now = case_of(known[second.after or ""]), case_of(second)
        part = "attributes" if name in now.attributes else "inputs"
        one, two = (getattr(case, part).get(name) for case in (then, now))
        assert not is_wrong(second, now)
        if one is not None and two is not None and np.shape(one) == np.shape(two):
            changed: Any = {part: {**getattr(now, part), name: one}}
            is_same = KEYS[forgotten](one) == KEYS[forgotten](two)
            found += [second.id] if is_same and is_wrong(second, replace(now, **changed)) else []
    assert found


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a folder of two files."""
    for name in (f"{NONZERO}/core/floats", "element_wise_quantize_linear/core/special"):
        target = tmp_path / f"{name}.json"
        target.parent.mkdir(parents=True)
        shutil.copy(vectors_dir() / f"{name}.json", target)
    return tmp_path


def mutants(root: Path, *arguments: str) -> int:
    return main(["mutants", "--vectors", str(root), "--jobs", "1", *arguments])


def test_killed_mutants_exit_0_and_name_their_killers(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, killer = tmp_path / "matrix.json", "nonzero-float32-subnormal"
    assert mutants(small, "--id", FLUSHED, "--json", str(out), "--matrix", "--never-alone") == 0
    shown = capsys.readouterr().out
    for text in (f"{FLUSHED}: killed by {killer}", "1 / 1", "floats:1", "nonzero-float32-nan"):
        assert text in shown
    value = json.loads(out.read_text())
    (line,) = value["mutants"]
    assert line["killed_by"] == [killer]
    assert line["topics"] == {"floats": 1}
    assert value["only_killers"] == {killer: [FLUSHED]}
    assert killer not in value["never_alone"]
    assert value["survivors"] == []


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nonzero-refuses-input-rank-above-7", "survives: {} (NZC-8)"),
        ("nonzero-count-plus-1", "killed only by vectors about other clauses: {}"),
    ],
)
def test_a_mutant_that_no_vector_about_its_clause_kills_exits_1(
    name: str, complaint: str, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mutants(small, "--id", name) == 1
    assert complaint.format(name) in capsys.readouterr().out


def test_a_false_alarm_exits_1(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "quantize-permitted-nan-highest"
    assert mutants(small, "--id", name) == 0
    path = small / "element_wise_quantize_linear" / "core" / "special.json"
    value = json.loads(path.read_text())
    for vector in value["vectors"]:
        for output in vector["expect"].get("outputs", {}).values():
            if output.pop("listed", None):
                output["compare"] = "exact"
    path.write_text(json.dumps(value))
    assert mutants(small, "--id", name) == 1
    shown = capsys.readouterr().out
    assert f"permitted, but a vector fails it: {name}" in shown
    assert "quantize-nan-float32-int8" in shown


def test_processes_give_the_same_trials(small: Path) -> None:
    names = [FLUSHED, "quantize-permitted-nan-highest"]
    assert list(matrix.run(names, small, 2)) == list(matrix.run(names, small, 1))


def test_the_catalogue_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = []
    for sample in ("1", "100"):
        assert main(["mutants", "--operator", NONZERO, "--list", "--sample", sample]) == 0
        listed.append(capsys.readouterr().out)
    assert FLUSHED in listed[0]
    assert "qconv-strides-reversed" not in listed[0]
    assert 1 < len(listed[1].splitlines()) < len(listed[0].splitlines()) / 50
    assert main(["mutants", "--id", "nonsense"]) == 2
    assert "no such mutant" in capsys.readouterr().err
