"""The coverage of the vectors.

Each clause needs a call that keeps it, and one that breaks it; each operator, every count of
elements beside 128, 256, 1,000 and 65,536, and every value class at every structure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ..format.vectors import Vector
from ..operators import OPERATORS
from ..operators._shared.cross import Cross, Pair, Triple, takes_part
from ..operators._shared.size_classes import COUNTS
from ..operators.answer import with_elements
from ..operators.clauses import CLAUSES, UNBREAKABLE
from .corners import counts_of


def problems(
    suite: Sequence[Vector],
    clauses: Mapping[str, str] = CLAUSES,
    unbreakable: Mapping[str, str] = UNBREAKABLE,
) -> Iterator[str]:
    """Complain about clauses without vectors, and about marks that do not hold."""
    kept = {clause for vector in suite if vector.is_valid for clause in vector.clause}
    broken = {clause for vector in suite if not vector.is_valid for clause in vector.clause}
    for clause in clauses:
        if clause not in kept:
            yield f"{clause}: no valid vector"
        if clause not in broken and clause not in unbreakable:
            yield f"{clause}: no invalid vector, and not marked as one that no call can break"
        if clause in broken and clause in unbreakable:
            yield f"{clause}: marked {unbreakable[clause]!r}, but a vector breaks it"
    for clause in sorted((kept | broken | unbreakable.keys()) - clauses.keys()):
        yield f"{clause}: is no clause"


def size_problems(suite: Sequence[Vector], operators: Iterable[str]) -> Iterator[str]:
    """Complain about operators that no valid call gives so many elements to work out."""
    calls = [vector for vector in suite if vector.is_valid and vector.desc is None]
    found = {(vector.operator, count_of(vector)) for vector in calls}
    for operator in operators:
        for count in COUNTS:
            if (operator, count) not in found:
                yield f"{operator}: no valid call of {count} elements"


def count_of(vector: Vector) -> int:
    """Return the elements of the output, or of the input whose elements are counted."""
    if "OutputTensor" in vector.outputs:
        return prod(vector.outputs["OutputTensor"].sizes)
    return prod(vector.inputs["InputTensor"].sizes)


def pairs_of(operator: str, suite: Iterable[Vector]) -> Counter[Pair]:
    """Count the vectors that cover each pair of value class and structure that can be."""
    cross = OPERATORS[operator].cross
    assert cross is not None, operator
    counted = Counter(dict.fromkeys(cross.pairs(), 0))
    for vector in _calls(operator, suite):
        counted.update(cross.covered(vector))
    return counted


def _calls(operator: str, suite: Iterable[Vector]) -> Iterator[Vector]:
    """Yield the calls whose elements count and are known."""
    for vector in suite:
        if vector.operator == operator and takes_part(vector):
            known = with_elements(vector)
            if not known.has_digests:
                yield known


def triples_of(operator: str, suite: Iterable[Vector]) -> Counter[Triple]:
    """Count the vectors that cover each value class where two structures meet."""
    cross = OPERATORS[operator].cross
    assert cross is not None, operator
    counted = Counter(dict.fromkeys(cross.triples(), 0))
    for vector in _calls(operator, suite):
        counted.update(cross.met(vector))
    return counted


HEAD = (
    "value classes",
    "structures",
    "pairs",
    "covered",
    "by two vectors",
    "impossible",
    "meetings",
    "corners",
)


def row(operator: str, suite: Sequence[Vector]) -> list[str]:
    """Return the figures of an operator under `HEAD`; one without a table has none."""
    cross = OPERATORS[operator].cross
    if cross is None:
        return ["no table", *[""] * (len(HEAD) - 1)]
    counts = list(pairs_of(operator, suite).values())
    sizes = len(cross.classes), len(cross.structures)
    covered = (sum(count >= least for count in counts) for least in (1, 2))
    wanted, found = cross.triples(), triples_of(operator, suite)
    met = f"{sum(found[triple] > 0 for triple in wanted)} / {len(wanted)}"
    figures = (*sizes, len(counts), *covered, sizes[0] * sizes[1] - len(counts), met)
    at = counts_of(operator, suite).values()
    return [*map(str, figures), f"{sum(map(bool, at))} / {len(at)}"]


def cross_problems(suite: Sequence[Vector], operators: Iterable[str]) -> Iterator[str]:
    """Complain about value classes that no vector has at a structure, and about the tables."""
    for operator in operators:
        cross = OPERATORS[operator].cross
        if cross is not None:
            found = pairs_of(operator, suite)
            yield from (f"{operator}: {line}" for line in _hole_problems(cross, found))


def _hole_problems(cross: Cross[Any], found: Counter[Pair]) -> Iterator[str]:
    wanted = cross.pairs()
    for name, at in sorted(wanted):
        if not found[name, at]:
            yield f"no vector has {name!r} at {at!r}"
    for name, at in sorted(found.keys() - wanted):
        yield f"{name!r} at {at!r} is called impossible, but a vector has it"
