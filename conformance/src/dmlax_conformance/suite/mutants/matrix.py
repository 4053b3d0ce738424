"""Which vector kills which planted bug."""

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...format import vectors
from ...format.vectors import Vector
from .. import runner
from .catalogue import catalogue
from .record import Mutant

CHUNK = 16


@dataclass(frozen=True)
class Trial:
    """One mutant against the vectors of its operator: the ids of those that it is not exact on."""

    mutant: str
    fail: tuple[str, ...]
    error: tuple[str, ...]
    permitted: tuple[str, ...]
    unsupported: tuple[str, ...]


def judge(mutant: Mutant, suite: Iterable[Vector]) -> Trial:
    """Give all vectors that concern it to a mutant."""
    found: dict[str, list[str]] = {}
    for vector in filter(mutant.concerns, suite):
        verdict = runner.judge_alone(mutant.adapter, vector, "eager").verdict
        found.setdefault(verdict, []).append(vector.id)
    kinds = ("fail", "error", "permitted", "unsupported")
    return Trial(mutant.id, *(tuple(found.get(kind, ())) for kind in kinds))


def first_kill(mutant: Mutant, suite: Iterable[Vector]) -> str | None:
    """Return the first vector about the mutant's clauses that kills it."""
    for vector in filter(mutant.concerns, suite):
        is_about_it = not set(mutant.clause).isdisjoint(vector.clause)
        if is_about_it and runner.judge_alone(mutant.adapter, vector, "eager").verdict == "fail":
            return vector.id
    return None


def run(names: Sequence[str], root: Path | None, jobs: int) -> Iterator[Trial]:
    """Yield the trial of each mutant, in order."""
    if jobs == 1:
        suite = vectors.load_all(root)
        yield from (judge(catalogue()[name], suite) for name in names)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        yield from pool.map(_trial, names, [root] * len(names), chunksize=CHUNK)


def _trial(name: str, root: Path | None) -> Trial:
    return judge(catalogue()[name], _suite(root))


@cache
def _suite(root: Path | None) -> Sequence[Vector]:
    """Load the vectors once in a process, which lives for one run."""
    return vectors.load_all(root)


@dataclass(frozen=True)
class Matrix:
    """All trials, and what follows from them."""

    trials: Sequence[Trial]
    suite: Mapping[str, Vector]

    @classmethod
    def of(cls, trials: Sequence[Trial], suite: Iterable[Vector]) -> "Matrix":
        """Keep the vectors of the operators that were tried."""
        tried = {catalogue()[trial.mutant].operator for trial in trials}
        return cls(trials, {each.id: each for each in suite if each.operator in tried})

    @property
    def planted(self) -> list[Trial]:
        """The trials of bugs that must be killed."""
        return [trial for trial in self.trials if catalogue()[trial.mutant].must_kill]

    @property
    def survivors(self) -> list[Trial]:
        """Bugs that no vector kills."""
        return [trial for trial in self.planted if not trial.fail]

    @property
    def accidents(self) -> list[Trial]:
        """Bugs that only vectors about other clauses kill."""
        return [trial for trial in self.planted if trial.fail and not self._on_clause(trial)]

    @property
    def crashes(self) -> list[Trial]:
        """Mutants that crash somewhere, which kills nothing and says nothing."""
        return [trial for trial in self.trials if trial.error]

    @property
    def alarms(self) -> list[Trial]:
        """Permitted variants that a vector fails."""
        allowed = [trial for trial in self.trials if not catalogue()[trial.mutant].must_kill]
        return [trial for trial in allowed if trial.fail]

    @property
    def only_killers(self) -> dict[str, list[str]]:
        """Vectors that alone kill a bug, and the bugs."""
        found: dict[str, list[str]] = {}
        for trial in self.planted:
            if len(trial.fail) == 1:
                found.setdefault(trial.fail[0], []).append(trial.mutant)
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
        """Whether every bug is killed, and nothing that is permitted."""
        return not (self.survivors or self.alarms or self.crashes)

    def topics(self, trial: Trial) -> Counter[str]:
        """Count the killers of a bug by topic."""
        return Counter(self.suite[name].topic for name in trial.fail)

    def cover(self) -> list[str]:
        """Return few vectors that together kill every bug, found greedily."""
        kills: dict[str, set[str]] = {}
        for trial in self.planted:
            for name in trial.fail:
                kills.setdefault(name, set()).add(trial.mutant)
        left = {trial.mutant for trial in self.planted if trial.fail}
        chosen = []
        while left:
            best = max(kills, key=lambda name: len(kills[name] & left))
            chosen.append(best)
            left -= kills[best]
        return chosen

    def _on_clause(self, trial: Trial) -> bool:
        clauses = set(catalogue()[trial.mutant].clause)
        return any(not clauses.isdisjoint(self.suite[name].clause) for name in trial.fail)


def as_json(matrix: Matrix) -> dict[str, Any]:
    """Return everything as one JSON value."""
    return {
        "mutants": [_line(matrix, trial) for trial in matrix.trials],
        "survivors": [trial.mutant for trial in matrix.survivors],
        "false_alarms": [trial.mutant for trial in matrix.alarms],
        "only_killers": matrix.only_killers,
        "never_alone": matrix.never_alone,
        "idle": matrix.idle,
        "cover": matrix.cover(),
    }


def _line(matrix: Matrix, trial: Trial) -> dict[str, Any]:
    mutant = catalogue()[trial.mutant]
    return {
        "id": mutant.id,
        "operator": mutant.operator,
        "group": mutant.group,
        "clause": list(mutant.clause),
        "about": mutant.about,
        "must_kill": mutant.must_kill,
        "topics": dict(matrix.topics(trial)),
        "killed_by": list(trial.fail),
        "permitted_by": list(trial.permitted),
        "crashed_on": list(trial.error),
    }
