"""The coverage of the vectors.

Each clause needs a call that keeps it, and one that breaks it; each operator, every count of
elements beside 128, 256, 1,000 and 65,536.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from ..format.vectors import Vector
from ..operators._shared.size_classes import COUNTS
from ..operators.clauses import CLAUSES, UNBREAKABLE


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
