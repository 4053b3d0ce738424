"""The matrix of vectors and the planted bugs that each of them kills."""

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...format import vectors
from ...format.vectors import ExpectedError, Vector
from ...operators import OPERATORS
from ...operators._shared.cross import Array, takes_part
from ...operators.answer import with_elements
from .. import runner
from ..adapter import Adapter, Case
from . import structured
from .catalogue import catalogue
from .implementation import Found, Implementation, broken_rules, call_of
from .record import CORRECT, VALUES, Bug
from .steps import Call, Outputs

CHUNK = 16
LARGE = 10_000


@dataclass(frozen=True)
class Subject:
    """A vector as all bugs are given it: its case, the rules that are broken, or the call."""

    vector: Vector
    case: Case
    found: Found
    call: Call | None

    @classmethod
    def of(cls, vector: Vector) -> "Subject":
        """Return what all bugs share."""
        case = runner.case_of(vector)
        found = broken_rules(case)
        return cls(vector, case, found, None if found else call_of(case, CORRECT.layout))

    @cached_property
    def structures(self) -> Array | None:
        """The elements at each structure of the operator; None if the vector has none."""
        cross = OPERATORS[self.vector.operator].cross
        return cross.at_structures(self.vector) if cross and takes_part(self.vector) else None


@dataclass(frozen=True)
class Prepared:
    """An implementation that takes the broken rules of a case as an argument."""

    implementation: Implementation
    found: Found

    @property
    def capabilities(self) -> frozenset[str]:
        """The implementation's."""
        return self.implementation.capabilities

    def run(self, case: Case, variant: str) -> Outputs:
        """Answer one case."""
        return self.implementation.answer(case, self.found)


@dataclass(frozen=True)
class Trial:
    """One bug against the vectors of its operator: the ids of those that it is not exact on."""

    bug: str
    fail: tuple[str, ...]
    error: tuple[str, ...]
    permitted: tuple[str, ...]
    unsupported: tuple[str, ...]
    only_at: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        """The structures at which too few vectors kill the bug."""
        return [at for at, found in self.only_at.items() if len(found) < structured.ENOUGH]


def prepare(suite: Iterable[Vector]) -> list[Subject]:
    """Return the vectors with what all bugs share, but for those that take no part."""
    known = (with_elements(vector) for vector in suite if not _is_large(vector))
    return [Subject.of(vector) for vector in known if not vector.has_digests]


def _is_large(vector: Vector) -> bool:
    """Return whether it needs much memory, or so many elements that fractions take seconds."""
    asked = vector.outputs.get("OutputTensor")
    is_slow = asked is not None and prod(asked.sizes) > LARGE
    return is_slow or bool(runner.missing_capabilities(cast(Adapter, CORRECT), vector))


def judge(bug: Bug, subjects: Iterable[Subject]) -> Trial:
    """Give all vectors that concern it to a bug."""
    found: dict[str, list[str]] = {}
    only_at: dict[str, list[str]] = {at: [] for at in structured.structures(bug)}
    for subject in subjects:
        if bug.concerns(subject.vector) and _may_differ(bug, subject):
            verdict = _verdict(bug, subject)
            found.setdefault(verdict, []).append(subject.vector.id)
            if verdict == "fail" and only_at:
                for at in _killed_at(bug, subject) & only_at.keys():
                    only_at[at].append(subject.vector.id)
    kinds = ("fail", "error", "permitted", "unsupported")
    kept = {at: tuple(ids) for at, ids in only_at.items()}
    ids = {kind: tuple(found.get(kind, ())) for kind in kinds}
    return Trial(bug.id, **ids, only_at=kept)


def _killed_at(bug: Bug, subject: Subject) -> set[str]:
    """Return the structures at which alone the bug would fail the vector, too."""
    cross, call, expect = OPERATORS[bug.operator].cross, subject.call, subject.vector.expect
    if cross is None or call is None or subject.structures is None:
        return set()
    assert not isinstance(expect, ExpectedError)
    wrong = structured.differing(bug, subject.case, call, expect)
    is_killed = np.any(subject.structures & wrong, axis=1)
    names = list(cross.structures)
    return {names[index] for index in np.flatnonzero(is_killed)}


def first_kill(bug: Bug, subjects: Iterable[Subject]) -> str | None:
    """Return the first vector about the bug's clauses that kills it."""
    for subject in subjects:
        vector = subject.vector
        is_about_it = bug.concerns(vector) and not set(bug.clause).isdisjoint(vector.clause)
        may_kill = is_about_it and _may_differ(bug, subject)
        if may_kill and _verdict(bug, subject) == "fail":
            return vector.id
    return None


def _may_differ(bug: Bug, subject: Subject) -> bool:
    """Return whether the answer may be another one than the correct implementation's."""
    made, call = bug.implementation, subject.call
    with np.errstate(all="ignore"):
        if made.refuse is not CORRECT.refuse:
            return list(made.refuse(subject.case, subject.found)) != list(subject.found)
        if made.read is not CORRECT.read:
            return call is not None and not _is_same(made.read(call), call)
    return bug.group != VALUES or call is not None


def _is_same(one: Call, two: Call) -> bool:
    """Return whether two calls have the same attributes and the same bits."""
    return one.attributes == two.attributes and all(
        name in two.inputs and _has_same_bits(array, two.inputs[name])
        for name, array in one.inputs.items()
    )


def _has_same_bits(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return False
    return np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(two).tobytes()


def _verdict(bug: Bug, subject: Subject) -> str:
    adapter = cast(Adapter, Prepared(bug.implementation, subject.found))
    return runner.judge_alone(adapter, subject.vector, "eager", subject.case).verdict


def run(names: Sequence[str], root: Path | None, jobs: int) -> Iterator[Trial]:
    """Yield the trial of each bug, in order."""
    if jobs == 1:
        subjects = prepare(vectors.load_all(root))
        yield from (judge(catalogue()[name], subjects) for name in names)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        yield from pool.map(_trial, names, [root] * len(names), chunksize=CHUNK)


def _trial(name: str, root: Path | None) -> Trial:
    return judge(catalogue()[name], _subjects(root))


@cache
def _subjects(root: Path | None) -> Sequence[Subject]:
    """Load the vectors once in a process, which lives for one run."""
    return prepare(vectors.load_all(root))


@dataclass(frozen=True)
class Matrix:
    """All trials, and what follows from them."""

    trials: Sequence[Trial]
    suite: Mapping[str, Vector]

    @classmethod
    def of(cls, trials: Sequence[Trial], suite: Iterable[Vector]) -> "Matrix":
        """Keep the vectors of the operators that were tried."""
        tried = {catalogue()[trial.bug].operator for trial in trials}
        return cls(trials, {each.id: each for each in suite if each.operator in tried})

    @property
    def planted(self) -> list[Trial]:
        """The trials of bugs that must be killed."""
        return [trial for trial in self.trials if catalogue()[trial.bug].must_kill]

    @property
    def survivors(self) -> list[Trial]:
        """Bugs that no vector kills."""
        return [trial for trial in self.planted if not trial.fail]

    @property
    def missed(self) -> list[tuple[Trial, str]]:
        """Bugs of arithmetic and structures at which alone too few vectors kill them."""
        return [(trial, at) for trial in self.planted for at in trial.missed]

    @property
    def accidents(self) -> list[Trial]:
        """Bugs that only vectors about other clauses kill."""
        return [trial for trial in self.planted if trial.fail and not self._on_clause(trial)]

    @property
    def crashes(self) -> list[Trial]:
        """Bugs that crash somewhere, which kills nothing and says nothing."""
        return [trial for trial in self.trials if trial.error]

    @property
    def alarms(self) -> list[Trial]:
        """Permitted variants that a vector fails."""
        allowed = [trial for trial in self.trials if not catalogue()[trial.bug].must_kill]
        return [trial for trial in allowed if trial.fail]

    @property
    def only_killers(self) -> dict[str, list[str]]:
        """Vectors that alone kill a bug, and the bugs."""
        found: dict[str, list[str]] = {}
        for trial in self.planted:
            if len(trial.fail) == 1:
                found.setdefault(trial.fail[0], []).append(trial.bug)
        return found

    @property
    def never_alone(self) -> list[str]:
        """Vectors that are never the only killer."""
        return [name for name in self.suite if name not in self.only_killers]

    @property
    def idle(self) -> list[str]:
        """Vectors that kill nothing."""
        busy = {name for trial in self.planted for name in trial.fail}
        return [name for name in self.suite if name not in busy]

    @property
    def is_fine(self) -> bool:
        """True if vectors about its clause kill every bug, and none kills a permitted variant."""
        found = self.survivors, self.missed, self.accidents, self.alarms, self.crashes
        return not any(found)

    def topics(self, trial: Trial) -> Counter[str]:
        """Count the killers of a bug by topic."""
        return Counter(self.suite[name].topic for name in trial.fail)

    def cover(self) -> list[str]:
        """Return few vectors that together kill every bug, found greedily."""
        kills: dict[str, set[str]] = {}
        for trial in self.planted:
            for name in trial.fail:
                kills.setdefault(name, set()).add(trial.bug)
        left = {trial.bug for trial in self.planted if trial.fail}
        chosen = []
        while left:
            best = max(kills, key=lambda name: len(kills[name] & left))
            chosen.append(best)
            left -= kills[best]
        return chosen

    def _on_clause(self, trial: Trial) -> bool:
        clauses = set(catalogue()[trial.bug].clause)
        return any(not clauses.isdisjoint(self.suite[name].clause) for name in trial.fail)


def as_json(matrix: Matrix) -> dict[str, Any]:
    """Return everything as one JSON value."""
    return {
        "mutants": [_line(matrix, trial) for trial in matrix.trials],
        "survivors": [trial.bug for trial in matrix.survivors],
        "missed": [f"{trial.bug}, only at: {at}" for trial, at in matrix.missed],
        "false_alarms": [trial.bug for trial in matrix.alarms],
        "only_killers": matrix.only_killers,
        "never_alone": matrix.never_alone,
        "idle": matrix.idle,
        "cover": matrix.cover(),
    }


def _line(matrix: Matrix, trial: Trial) -> dict[str, Any]:
    bug = catalogue()[trial.bug]
    return {
        "id": bug.id,
        "operator": bug.operator,
        "group": bug.group,
        "clause": list(bug.clause),
        "about": bug.about,
        "must_kill": bug.must_kill,
        "topics": dict(matrix.topics(trial)),
        "killed_by": list(trial.fail),
        "only_at": {at: len(found) for at, found in trial.only_at.items()},
        "permitted_by": list(trial.permitted),
        "crashed_on": list(trial.error),
    }
