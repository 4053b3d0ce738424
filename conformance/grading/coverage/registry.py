"""The coverage of each operator: its matrix, its boundary cases, and the clauses of its pages."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.oracle.calls import with_elements
from dmlax_conformance.oracle.clauses import CLAUSES, UNBREAKABLE

from . import binary, boundary, convolution, element_wise, lookup, matmul, nonzero, pooling
from .matrix import CoverageMatrix, Pair, impossible, takes_part

FAMILIES = (nonzero, convolution, element_wise, binary, lookup, pooling, matmul)
EXCEPTIONS = json.loads((Path(__file__).parent / "exceptions.json").read_text(encoding="utf-8"))
MATRICES = {
    name: replace(
        matrix, impossible=impossible(own.get("impossible", ())), whole=own.get("whole", ())
    )
    for family in FAMILIES
    for name, matrix in family.MATRICES.items()
    for own in [EXCEPTIONS.get(name, {})]
}
HEAD = (
    *("equivalence classes", "structures", "pairs", "covered", "by two vectors", "impossible"),
    "boundary cases",
)


def cross_of(operator: str) -> CoverageMatrix | None:
    """Return the coverage matrix of an operator, if it has one."""
    return MATRICES.get(operator)


def covered(operator: str, calls: Iterable[Vector]) -> Counter[Pair]:
    """Count the vectors that cover each pair."""
    matrix = cross_of(operator)
    known = [with_elements(vector) for vector in calls if takes_part(vector)]
    pairs = (matrix.covered(vector) for vector in known if matrix and not vector.has_digests)
    return Counter(chain.from_iterable(pairs))


def row(operator: str, suite: Sequence[Vector]) -> list[str]:
    """Return the figures of an operator under `HEAD`; one without a matrix has none."""
    matrix, at = cross_of(operator), boundary.counts_of(operator, suite).values()
    cases = f"{sum(map(bool, at))} / {len(at)}"
    if matrix is None:
        return ["no matrix", *[""] * (len(HEAD) - 2), cases]
    pairs, counts = matrix.pairs(), covered(operator, suite)
    sizes = len(matrix.classes), len(matrix.structures)
    by = [sum(counts[pair] >= least for pair in pairs) for least in (1, 2)]
    figures = (*sizes, len(pairs), *by, sizes[0] * sizes[1] - len(pairs))
    return [*map(str, figures), cases]


def problems(operator: str, suite: Sequence[Vector]) -> Iterator[str]:
    """Complain about what the vectors of an operator do not cover, and about false exceptions."""
    for name, count in boundary.counts_of(operator, suite).items():
        if not count:
            yield f"{operator}: no vector at the boundary case {name!r}"
    matrix, found = cross_of(operator), covered(operator, suite).keys()
    wanted = matrix.pairs() if matrix else set()
    for name, at in sorted(wanted - found):
        yield f"{operator}: no vector has {name!r} at {at!r}"
    for name, at in sorted(found - wanted):
        yield f"{operator}: {name!r} at {at!r} is called impossible, but a vector has it"


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
