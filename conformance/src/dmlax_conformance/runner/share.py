"""The share of the vectors that an adapter answers, of those that it declares."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..format.descs import DTYPES
from ..format.vectors import Vector
from .adapter import Adapter
from .run import PASSED, Result, why_declined

OPERANDS = ("InputTensor", "ATensor", "BTensor")  # whose dimensions an adapter's `ranks` are about
NOT_APPLICABLE, IF_ANSWERED, APPLICABLE = "no", "if its operator is answered", "yes"


class Judged(NamedTuple):
    """The facts that decide whether a run proves enough; all are texts or truth values."""

    name: str
    operator: str
    is_valid: bool
    applies: str
    verdict: str


def judged(adapter: Adapter | None, result: Result) -> Judged:
    """Return what counts of a result; answers from files have no adapter."""
    vector, applies = result.vector, NOT_APPLICABLE
    if adapter is None or is_declared(adapter, vector, result.variant):
        applies = IF_ANSWERED if getattr(adapter, "operators", None) is None else APPLICABLE
    return Judged(vector.id, vector.operator, vector.is_valid, applies, result.verdict)


def is_declared(adapter: Adapter, vector: Vector, variant: str) -> bool:
    """Say whether a vector is one of the operators, data types and ranks that are declared."""
    if why_declined(adapter, vector, variant):
        return False
    if vector.paired_with and not is_declared(adapter, vector.paired_with, variant):
        return False
    names = vector.operator, variant
    dtypes, ranks = (getattr(adapter, key, None) for key in ("dtypes", "ranks"))
    return _allows(dtypes, names, _dtypes(vector)) and _allows(ranks, names, _ranks(vector))


def _allows(limits: Any, names: Sequence[str], values: set[Any]) -> bool:
    """Say whether limits have all values; they are a list, or lists by operator or variant."""
    if limits is None:
        return True
    if not isinstance(limits, Mapping):
        return values <= {*limits}
    return all(values <= {*limits[name]} for name in names if name in limits)


def _described(vector: Vector) -> Mapping[str, Any]:
    """Return the descs of a vector's tensors."""
    return {name: part for name, part in (vector.desc or {}).items() if isinstance(part, dict)}


def _dtypes(vector: Vector) -> set[str]:
    if vector.desc is not None:
        return {DTYPES.get(desc["DataType"], "unknown") for desc in _described(vector).values()}
    dtypes = {tensor.dtype for tensor in vector.inputs.values()}
    return dtypes | {asked.dtype for asked in vector.outputs.values()}


def _ranks(vector: Vector) -> set[int]:
    if vector.desc is not None:
        described = _described(vector)
        return {len(described[name]["Sizes"]) for name in OPERANDS if name in described}
    return {len(vector.inputs[name].sizes) for name in OPERANDS if name in vector.inputs}


class Share(NamedTuple):
    """The applicable vectors, and those that all variants declined by operator."""

    applicable: int
    declined: Counter[str]

    @property
    def percentage(self) -> float:
        """The percentage of the applicable vectors that were answered, rounded down."""
        return int(10_000 * self.answered / (self.applicable or 1)) / 100

    @property
    def answered(self) -> int:
        """The number of vectors that a variant answered."""
        return self.applicable - self.declined.total()

    def __str__(self) -> str:
        """Return the counts and the percentage."""
        counts = f"{self.answered} of {self.applicable} applicable vectors"
        return f"answered {counts} ({self.percentage:g} %)"


def applying(rows: Sequence[Judged]) -> list[bool]:
    """Say of each result whether its vector applies: it is declared, or is answered anyway.

    Without a declaration the operators that have any answer count.
    """
    answered = {row.operator for row in rows if row.verdict != "unsupported"}
    return [
        row.verdict != "unsupported"
        or row.applies == APPLICABLE
        or (row.applies == IF_ANSWERED and row.operator in answered)
        for row in rows
    ]


def share_of(rows: Sequence[Judged]) -> Share:
    """Return the share; a vector is answered if a variant answers it."""
    keys = [(row.operator, row.name) for row in rows]
    applicable = {key for key, applies in zip(keys, applying(rows), strict=True) if applies}
    verdicts = [row.verdict for row in rows]
    answered = {key for key, each in zip(keys, verdicts, strict=True) if each != "unsupported"}
    return Share(len(applicable), Counter(operator for operator, _ in applicable - answered))


def values_of(results: Iterable[Judged]) -> Counter[str]:
    """Count the right values by operator: right answers to vectors that keep every rule."""
    return Counter(row.operator for row in results if row.is_valid and row.verdict in PASSED)


def shortfalls(
    results: Sequence[Judged], least: int | None = None, min_share: float | None = None
) -> list[str]:
    """Return why a run proves too little, however right its answers are.

    A run needs `least` values; one about refusals alone needs an answer. It also needs a share of
    the applicable vectors: `min_share` percent, by default all.
    """
    has_values = least is not None or any(row.is_valid for row in results)
    answers = sum(row.verdict != "unsupported" for row in results)
    number, what = answers, "applicable cases"
    if has_values:
        number, what = values_of(results).total(), "values"
    lacking = []
    if number < max(least or 1, 1):
        lacking.append(f"{number} {what}, needed {max(least or 1, 1)}")
    share = share_of(results)
    wanted = 100 if min_share is None else min_share
    if share.applicable and share.percentage < wanted:
        names = ", ".join(f"{count} of {name}" for name, count in sorted(share.declined.items()))
        lacking.append(f"{share}, needed {wanted:g} % (--min-share); declined: {names}")
    return lacking
