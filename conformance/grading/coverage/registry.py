"""The coverage of each operator: equivalence classes, boundary cases, and clauses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle.calls import with_elements
from dmlax_conformance.oracle.clauses import CLAUSES, UNBREAKABLE
from dmlax_conformance.oracle.fixed_point import FIELD

from . import boundary, fixed_point
from .elements import takes_part
from .families import FAMILIES


def names_of(operator: str) -> list[str]:
    """Return the equivalence classes of an operator."""
    _, rows, tests = FAMILIES[operator]
    return [*rows, *tests, *fixed_point.names_of(operator)]


def classes_of(operator: str, vector: Vector) -> set[str]:
    """Return the equivalence classes that elements of a call are in."""
    if FIELD in vector.attributes:
        return fixed_point.RequantizedView(vector).named
    view_of, rows, tests = FAMILIES[operator]
    view = view_of(vector)
    found = {*rows} & view.named if rows and view.count else set()
    return found | {name for name, test in tests.items() if view.count and np.any(test(view))}


def covered(operator: str, calls: Iterable[Vector]) -> Counter[str]:
    """Count the vectors that cover each equivalence class of an operator."""
    known = [with_elements(vector) for vector in calls if takes_part(vector)]
    found = (classes_of(operator, vector) for vector in known if not vector.has_digests)
    return Counter(chain.from_iterable(found))


def problems(operator: str, suite: Sequence[Vector]) -> Iterator[str]:
    """Complain about what the vectors of an operator do not cover."""
    for name, count in boundary.counts_of(operator, suite).items():
        if not count:
            yield f"{operator}: no vector at the boundary case {name!r}"
    if operator not in FAMILIES:
        yield f"{operator}: has no equivalence classes in coverage/families.py"
        return
    found = covered(operator, suite)
    yield from (f"{operator}: no vector has {x!r}" for x in names_of(operator) if not found[x])


def clause_problems(
    kept: set[str],
    broken: set[str],
    clauses: Mapping[str, str] = CLAUSES,
    unbreakable: Mapping[str, str] = UNBREAKABLE,
) -> Iterator[str]:
    """Complain about clauses that no valid vector keeps, or that no invalid one breaks."""
    for clause in clauses:
        if clause not in kept:
            yield f"{clause}: no valid vector"
        if clause not in broken and clause not in unbreakable:
            yield f"{clause}: no invalid vector, and not marked as one that no call can break"
        if clause in broken and clause in unbreakable:
            yield f"{clause}: marked {unbreakable[clause]!r}, but a vector breaks it"
    for clause in sorted((kept | broken | unbreakable.keys()) - clauses.keys()):
        yield f"{clause}: is no clause"
