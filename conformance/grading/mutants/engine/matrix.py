"""Trials of mutants against the vectors, and the matrix of kills that the trials make.

A mutant is tried once on each call. The same mutant "only at" a structure differs where the mutant
differs and the structure is, so its kills follow from the trial and the structures.
"""

import multiprocessing
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dmlax_conformance.errors import SpecViolation, Unsupported
from dmlax_conformance.format import vectors
from dmlax_conformance.format.tensors import from_numpy
from dmlax_conformance.format.vectors import ExpectedError, Vector
from dmlax_conformance.oracle.calls import with_elements
from dmlax_conformance.runner.adapter import Case
from dmlax_conformance.runner.compare import compare_outputs, differences
from dmlax_conformance.runner.run import case_of
from grading.coverage.matrix import takes_part
from grading.coverage.registry import cross_of
from grading.mutants.registry import mutants_of

from .catalogue import catalogue
from .implementation import Violations, broken_rules
from .mutant import CORRECT, VALUES, Mutant, correct
from .steps import Array, Call, Outputs

CHUNK = 16
LARGE = 10_000  # elements of an output that fractions take seconds for
ENOUGH = 2  # vectors that have to kill a mutant at a structure
MOVES = frozenset(  # steps that move values and change none
    {"pad", "sizes", "taps", "reads", "order", "table", "promote", "pair", "squeeze", "repeat"}
    | {"spread_bias", "window"}
)


@dataclass(frozen=True)
class Subject:
    """A vector as every mutant gets it: the case, and the broken rules or the call."""

    vector: Vector
    case: Case
    broken: Violations
    call: Call | None

    @cached_property
    def structures(self) -> Mapping[str, Any]:
        """The elements at each structure of the operator; none if the vector takes no part."""
        cross = cross_of(self.vector.operator)
        if cross is None or not takes_part(self.vector):
            return {}
        return dict(zip(cross.structures, cross.at_structures(self.vector), strict=True))


class Trial(NamedTuple):
    """A mutant, and the vectors of its operator that it is not exact on."""

    id: str
    operator: str
    group: str
    clause: Sequence[str]
    must_kill: bool
    killed_by: Sequence[str]
    topics: Mapping[str, int]  # how many vectors of a topic kill the mutant
    is_on_clause: bool  # whether a vector about its clauses kills it
    only_at: Mapping[str, int]  # how many vectors kill it if it is at one structure only
    permitted_by: Sequence[str]
    crashed_on: Sequence[str]
    declined: Sequence[str]


def prepare(suite: Iterable[Vector]) -> list[Subject]:
    """Return the vectors with what all mutants share, except those that take no part."""
    known = [with_elements(vector) for vector in suite if not _is_large(vector)]
    prepared = []
    for vector in (vector for vector in known if not vector.has_digests):
        case = case_of(vector)
        broken = broken_rules(case)
        prepared.append(Subject(vector, case, broken, None if broken else CORRECT.call_of(case)))
    return prepared


def _is_large(vector: Vector) -> bool:
    asked = vector.outputs.get("OutputTensor")
    return "large" in vector.requires or (asked is not None and prod(asked.sizes) > LARGE)


def judge(mutant: Mutant, subjects: Iterable[Subject]) -> Trial:
    """Give a mutant all vectors that concern it."""
    by_verdict: dict[str, list[Vector]] = defaultdict(list)
    only_at = dict.fromkeys(structures(mutant), 0)
    for subject in subjects:
        kind, answer = verdict(mutant, subject)
        by_verdict[kind].append(subject.vector)
        if kind == "fail" and only_at and subject.structures:
            wrong = _wrong(mutant, subject, answer)
            for at in only_at:
                only_at[at] += int(np.any(subject.structures[at] & wrong))
    m, killers = mutant, by_verdict["fail"]
    topics = Counter(vector.topic for vector in killers)
    is_on_clause = any(not {*m.clause}.isdisjoint(vector.clause) for vector in killers)
    kinds = ("fail", "permitted", "error", "unsupported")
    killed_by, *others = ([vector.id for vector in by_verdict[kind]] for kind in kinds)
    about = m.id, m.operator, m.group, m.clause, m.must_kill
    return Trial(*about, killed_by, topics, is_on_clause, only_at, *others)


def verdict(mutant: Mutant, subject: Subject) -> tuple[str, Outputs]:
    """Return the verdict on a mutant's answer to one vector, and the answer if there is any."""
    vector, expect = subject.vector, subject.vector.expect
    if not mutant.concerns(vector):
        return "exact", {}
    try:
        if not _may_differ(mutant, subject):
            return "exact", {}
        answer = mutant.implementation.answer(subject.case, subject.broken)
    except Unsupported:
        return "unsupported", {}
    except SpecViolation as refusal:
        answered = (refusal.code, refusal.field)
        if not isinstance(expect, ExpectedError):
            return "fail", {}
        if answered == (expect.code, expect.field):
            return "exact", {}
        return "permitted" if answered in expect.also else "fail", {}
    except Exception:
        return "error", {}
    if isinstance(expect, ExpectedError):
        return "fail", {}
    return compare_outputs(expect, answer, vector.desc).verdict, answer


def _may_differ(mutant: Mutant, subject: Subject) -> bool:
    """Return whether the answer may be another one than the correct implementation's."""
    made, call = mutant.implementation, subject.call
    with np.errstate(all="ignore"):
        if made.refuse is not CORRECT.refuse:
            return list(made.refuse(subject.case, subject.broken)) != list(subject.broken)
        if made.read is not CORRECT.read:
            return call is not None and pickle.dumps(made.read(call)) != pickle.dumps(call)
    return mutant.group != VALUES or call is not None


def structures(mutant: Mutant) -> list[str]:
    """Return the structures at which a mutant of arithmetic can be; of any other mutant none."""
    cross, right = cross_of(mutant.operator), correct(mutant.operator).parts
    steps = {  # none if a whole part is replaced
        step.name
        for name, part in mutant.implementation.parts.items()
        if is_dataclass(part)
        for step in fields(part)
        if getattr(part, step.name) != getattr(right[name], step.name)
    }
    is_arithmetic = mutant.group == VALUES and bool(steps) and not steps & MOVES
    if cross is None or not is_arithmetic or any(fnmatchcase(mutant.id, x) for x in cross.whole):
        return []
    return [at for at in cross.structures if cross.why_not(mutant.id, at) is None]


def _wrong(mutant: Mutant, subject: Subject, answer: Outputs) -> Array:
    """Return on which elements an answer is wrong; nothing that is permitted counts."""
    of_family, expect = mutants_of(mutant.operator).differing, subject.vector.expect
    if of_family is not None:
        return cast(Array, of_family(mutant.implementation.parts, subject.call))
    assert not isinstance(expect, ExpectedError)
    wanted, answered = expect["OutputTensor"], from_numpy(answer["OutputTensor"])
    assert (answered.dtype, answered.sizes) == (wanted.dtype, wanted.sizes), mutant.id
    wrong = np.zeros(len(wanted.words), bool)
    wrong[[index for index, is_fine in differences(wanted, answered.words) if not is_fine]] = True
    return wrong


def run(names: Sequence[str], root: Path | None, jobs: int) -> Iterator[Trial]:
    """Yield the trial of each mutant, in order."""
    if jobs == 1:
        subjects = prepare(vectors.load_all(root))
        yield from (judge(catalogue()[name], subjects) for name in names)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_trial, names, [root] * len(names), chunksize=CHUNK)


def _trial(name: str, root: Path | None) -> Trial:
    return judge(catalogue()[name], _subjects(root))


@cache
def _subjects(root: Path | None) -> Sequence[Subject]:
    """Load the vectors once in a process, which lives for one run."""
    return prepare(vectors.load_all(root))


def matrix(trials: Sequence[Trial], suite: Iterable[Vector]) -> dict[str, Any]:
    """Return all trials and what follows from them, as one JSON value."""
    must_kill = [trial for trial in trials if trial.must_kill]
    only_killers: dict[str, list[str]] = defaultdict(list)
    for trial in must_kill:
        if len(trial.killed_by) == 1:
            only_killers[trial.killed_by[0]].append(trial.id)
    busy = {name for trial in must_kill for name in trial.killed_by}
    operators = {trial.operator for trial in trials}
    tried = [vector.id for vector in suite if vector.operator in operators]
    few = [(t.id, at) for t in must_kill for at, count in t.only_at.items() if count < ENOUGH]
    return {
        "survivors": [t.id for t in must_kill if not t.killed_by],
        "accidents": [t.id for t in must_kill if t.killed_by and not t.is_on_clause],
        "missed": [f"{name}, only at: {at}" for name, at in few],
        "false_alarms": [t.id for t in trials if t.killed_by and not t.must_kill],
        "crashes": [t.id for t in trials if t.crashed_on],
        "only_killers": only_killers,
        "never_alone": [name for name in tried if name not in only_killers],
        "idle": [name for name in tried if name not in busy],
        "mutants": [trial._asdict() for trial in trials],
    }
