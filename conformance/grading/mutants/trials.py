"""Trials of mutants: the vectors about a mutant's clauses that fail it."""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from dmlax_conformance.exit_codes import FAILED, FINE, USAGE
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.calls import with_elements
from dmlax_conformance.runner.run import case_of
from dmlax_conformance.terminal import Table, complain, progress
from grading.coverage.elements import LARGEST

from .derived import accepting, descs, readings
from .kept import keeping
from .mutant import Mutant, Subject, broken_rules, is_failed
from .ways import wrong_ways

Trial = tuple[Mutant, Sequence[str]]  # a mutant and the vectors that kill it


def mutants_of(operator: str, subjects: Iterable[Subject]) -> Iterator[Mutant]:
    """Yield the mutants of an operator, given its vectors."""
    calls = [x.vector for x in subjects if not x.broken and x.vector.desc is None]
    yield from (*readings(operator), *keeping(operator), *wrong_ways(operator))
    yield from accepting(operator, calls)
    yield from descs(operator) if OPERATORS[operator].tables else ()


def prepare(suite: Iterable[Vector]) -> list[Subject]:
    """Return the vectors that are not large, the smallest first."""
    small = [v for v in suite if not v.memory and _size(v) <= LARGEST]
    named = {each.after for each in small}
    first = {v.id: case_of(v) for v in small if v.id in named}
    known = [v for v in map(with_elements, small) if not v.has_digests]
    cases = [(vector, case_of(vector)) for vector in sorted(known, key=_size)]
    return [Subject(v, case, broken_rules(case), first.get(v.after or "")) for v, case in cases]


def _size(vector: Vector) -> int:
    return sum(len(own.words) for own in vector.inputs.values())


def killers(mutant: Mutant, subjects: Iterable[Subject]) -> Iterator[str]:
    """Yield the ids of the vectors about the mutant's clauses that fail it."""
    about = (each for each in subjects if mutant.concerns(each.vector))
    return (each.vector.id for each in about if is_failed(mutant, each))


def trials(
    operator: str, root: Path | None = None, ids: Sequence[str] | None = None
) -> list[Trial]:
    """Return the mutants of an operator and one killer of each; all killers of those with ids."""
    subjects = prepare(vectors.load_all(root, (operator,)))
    tried = list[Trial]()
    for mutant in mutants_of(operator, subjects):
        if ids is None or mutant.id in ids:
            found = killers(mutant, subjects)
            tried.append((mutant._replace(change=None), [*islice(found, None if ids else 1)]))
    return tried


def run(options: argparse.Namespace) -> int:
    """Try every mutant that the options choose, and print what the vectors kill."""
    operators = options.operator or list(OPERATORS)
    given = operators, [options.vectors] * len(operators), [options.id] * len(operators)
    with ProcessPoolExecutor(options.jobs or os.cpu_count(), get_context("spawn")) as pool:
        tried = list(progress(pool.map(trials, *given), "operators", len(operators)))
    every = [trial for each in tried for trial in each]
    if not every:
        return complain("no such mutant", USAGE)
    table = Table("mutants", "killed", "all")
    for name, mine in (*zip(operators, tried, strict=True), ("all", every)):
        table.add_row(name, str(sum(bool(dead) for _, dead in mine)), str(len(mine)))
    print(table)
    for mutant, dead in every:
        if not dead:
            print(f"survives: {mutant.id} ({' '.join(mutant.clause)})")
        elif options.id:
            print(f"{mutant.id}: killed by {' '.join(dead)}")
    return FINE if all(dead for _, dead in every) else FAILED
