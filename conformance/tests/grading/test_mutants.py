"""The vectors kill every mutant."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.clauses import CLAUSES
from dmlax_conformance.runner.adapter import Case
from dmlax_conformance.runner.run import case_of
from grading.__main__ import main
from grading.mutants import mutant as mutants
from grading.mutants import trials
from grading.mutants.kept import keeping
from grading.mutants.mutant import Subject, is_failed

LOOKUP = "quantized_lookup"


@cache
def suite() -> Sequence[Vector]:
    return [vector for vector in vectors.load_all() if not vector.memory]


@cache
def subjects(operator: str) -> list[Subject]:
    return trials.prepare(vector for vector in suite() if vector.operator == operator)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_mutant_is_killed_and_every_clause_has_one(operator: str) -> None:
    known, own = subjects(operator), list(trials.mutants_of(operator, subjects(operator)))
    assert len({mutant.id for mutant in own}) == len(own) > 20
    assert CLAUSES.keys() >= {clause for mutant in own for clause in mutant.clause}
    missing = OPERATORS[operator].clauses.keys() - {each for m in own for each in m.clause}
    assert missing <= OPERATORS[operator].unbreakable.keys()
    assert [mutant.id for mutant in own if not next(trials.killers(mutant, known), "")] == []


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_vector_fails_the_oracle(operator: str) -> None:
    assert [x.vector.id for x in subjects(operator)[::3] if is_failed(None, x)] == []


def test_a_mutant_that_equals_the_oracle_survives() -> None:
    for step, change in (
        ("read", lambda call: call),
        (mutants.KEPT, lambda earlier, call: call),
        ("refuse", lambda case, broken: broken),
        ("lookup.DTYPES", lambda own: own),
    ):
        own = mutants.mutant(LOOKUP, "same", "LUT-1 LUT-2", mutants.VALUES, step, change)
        assert [*trials.killers(own, subjects(LOOKUP))] == []


def test_a_kept_table_shows_only_in_the_second_call() -> None:
    known = {own.id: own for own in keeping(LOOKUP)}
    found = {*trials.killers(known["lookup-keeps-table-by-its-even-entries"], subjects(LOOKUP))}
    assert "lookup-kept-table-odd-entries" in found
    assert all(x.vector.after for x in subjects(LOOKUP) if x.vector.id in found)
    assert not found & {"lookup-kept", "lookup-kept-table-even-entries"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_mutant_always_crashes(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash fails a vector, so a mutant has to give an answer to one.

    A convolution whose windows are misread has other sizes than its addend, and gives none.
    """
    answered = set[str]()
    is_wrong = mutants._is_wrong

    def note(vector: Vector, outputs: Any) -> bool:
        answered.add(tried)
        return is_wrong(vector, outputs)

    monkeypatch.setattr(mutants, "_is_wrong", note)
    made = trials.mutants_of(operator, subjects(operator))
    computing = {mutant.id: mutant for mutant in made if mutant.step != "refuse"}
    for tried, own in computing.items():
        for subject in (each for each in subjects(operator) if own.concerns(each.vector)):
            is_failed(own, subject)
            if tried in answered:
                break
    windows = re.compile("qconvadd-(strides|dilations|start-padding|end-padding)-")
    assert [name for name in computing.keys() - answered if not windows.match(name)] == []


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
    """Return whether the oracle's answer to a case is not what a vector expects."""
    return is_failed(None, Subject(vector, case, mutants.broken_rules(case)))


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


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["mutants", "--operator", LOOKUP, "--jobs", "1"]
    assert main([*command, "--id", "lookup-int8-as-uint8"]) == 0
    assert "lookup-int8-as-uint8: killed by lookup-" in capsys.readouterr().out
    for path in vectors.find():
        if path.parts[-3:] == (LOOKUP, "core", "shapes.json"):
            (tmp_path / LOOKUP / "core").mkdir(parents=True)
            (tmp_path / LOOKUP / "core" / path.name).write_bytes(path.read_bytes())
    assert main([*command, "--vectors", str(tmp_path)]) == 1
    assert "survives: lookup-" in capsys.readouterr().out
    assert main([*command, "--id", "lookup-no-such"]) == 2
    assert "no such mutant" in capsys.readouterr().err
