"""Which clauses the vectors are about: each needs a call that keeps it, and one that breaks it."""

from collections.abc import Iterator, Mapping, Sequence

from .generate.clauses import CLAUSES, UNBREAKABLE
from .vectors import Vector


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
