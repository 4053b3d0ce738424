"""The record of a run: counts, and one line for each answer that is not exact.

Vectors are of three kinds, which mean different things for a library that knows no DirectML:
`values` are valid calls, `refusals` calls that break a rule, `descriptors` both, through a desc.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..adapters.common import REFUSED
from ..format.vectors import Vector
from ..suite.adapter import Adapter
from ..suite.runner import Result

KINDS = ("values", "refusals", "descriptors")
KEPT = ("permitted", "fail", "error")
DISTRIBUTIONS = ("dmlax", "jax")
REASON_LENGTH = 120


def kind_of(vector: Vector) -> str:
    """Return one of `KINDS`."""
    if vector.desc is not None:
        return "descriptors"
    return "values" if vector.is_valid else "refusals"


def entry(adapter: Adapter, results: Sequence[Result]) -> dict[str, Any]:
    """Return what the scoreboard keeps of one implementation."""
    return {
        "versions": versions(adapter),
        "variants": {name: _counts(results, name) for name in adapter.variants},
        "answers": _answers(results),
        "unsupported": _unsupported(results),
    }


def versions(adapter: Adapter) -> dict[str, str]:
    """Return the versions that the adapter names, or else those of `dmlax` and what it needs."""
    own: dict[str, str] | None = getattr(adapter, "versions", None)
    if own is not None:
        return own
    return _installed(DISTRIBUTIONS) if adapter.name == "dmlax" else {}


def _installed(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def _counts(results: Iterable[Result], variant: str) -> dict[str, dict[str, dict[str, int]]]:
    """Return the verdicts of one variant by operator and kind."""
    counted: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for result in results:
        if result.variant == variant:
            counted[result.vector.operator][kind_of(result.vector)][result.verdict] += 1
    return {
        operator: {kind: dict(own[kind]) for kind in KINDS if kind in own}
        for operator, own in counted.items()
    }


def _answers(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the answers that are kept; vectors and variants with the same detail share a line."""
    variants: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for result in results:
        if result.verdict in KEPT:
            detail = result.outcome.details[0]
            key = (kind_of(result.vector), result.verdict, detail, result.vector.id)
            variants[key].append(result.variant)
    ids: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (kind, verdict, detail, name), own in variants.items():
        ids[kind, verdict, detail, tuple(own)].append(name)
    return [answer(*key, names) for key, names in ids.items()]


def answer(
    kind: str, verdict: str, detail: str, variants: Sequence[str], ids: Sequence[str]
) -> dict[str, Any]:
    """Return the line of vectors with the same answer in the same variants."""
    shared = {"kind": kind, "verdict": verdict, "variants": list(variants)}
    return {**shared, "ids": list(ids), "detail": detail}


def _unsupported(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return the reasons, how often each was given in any variant, and one vector of each."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        if result.verdict == "unsupported":
            kind, reason = kind_of(result.vector), result.outcome.details[0]
            reason = _shortened(kind, reason)
            start = {"kind": kind, "reason": reason, "example": result.vector.id, "count": 0}
            found.setdefault((kind, reason), start)["count"] += 1
    return sorted(found.values(), key=by_kind_and_count)


def by_kind_and_count(line: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the key that sorts reasons: the commonest of a kind first."""
    return KINDS.index(line["kind"]), -line["count"], line["reason"]


def _shortened(kind: str, reason: str) -> str:
    """Return a reason without what differs between calls; a refusal's own words do not matter."""
    if kind == "refusals" and reason.startswith(REFUSED):
        return REFUSED
    return re.sub(r"(?<![A-Za-z0-9])\d+(, ?\d+)*", "N", reason)[:REASON_LENGTH]
