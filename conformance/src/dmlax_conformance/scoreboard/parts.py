"""One entry from the parts of a run that several processes shared.

The entry is what one process would have written.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import WrongUsage
from .record import KINDS, answer, by_kind_and_count

SUMS = ("part", "variants", "answers", "unsupported")  # all else is the same in every part

Entry = Mapping[str, Any]


def merged(files: Iterable[Mapping[str, Entry]], ids: Sequence[str]) -> dict[str, Entry]:
    """Return an entry of each implementation, given the vectors' ids in order."""
    parts: dict[str, list[Entry]] = defaultdict(list)
    for entries in files:
        for name, entry in entries.items():
            parts[name].append(entry)
    places = {name: place for place, name in enumerate(ids)}
    return {name: _entry(name, own, places) for name, own in parts.items()}


def _entry(name: str, parts: Sequence[Entry], places: Mapping[str, int]) -> Entry:
    facts = {key: value for key, value in parts[0].items() if key not in SUMS}
    for each in parts:
        for key, value in facts.items():
            if each[key] != value:
                raise WrongUsage(f"{name}: {key} is {value} in one part and {each[key]} in another")
    if facts["vectors"] != len(places):
        raise WrongUsage(f"{name}: parts of {facts['vectors']} vectors, not of these {len(places)}")
    found = sorted(str(each.get("part")) for each in parts)
    if found != sorted(f"{part}/{len(parts)}" for part in range(1, len(parts) + 1)):
        raise WrongUsage(f"{name}: the parts are {', '.join(found)}")
    return facts | {
        "variants": {own: _counts(parts, own) for own in parts[0]["variants"]},
        "answers": _answers(parts, places),
        "unsupported": _unsupported(parts, places),
    }


def _counts(parts: Iterable[Entry], variant: str) -> dict[str, dict[str, dict[str, int]]]:
    """Add up the verdicts of one variant."""
    counted: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for each in parts:
        for operator, own in each["variants"][variant].items():
            for kind, counts in own.items():
                counted[operator][kind].update(counts)
    return {
        operator: {kind: dict(own[kind]) for kind in KINDS if kind in own}
        for operator, own in counted.items()
    }


def _answers(parts: Iterable[Entry], places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the answers; vectors of all parts with the same detail share a line."""
    found: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    lines = [one for each in parts for one in each["answers"]]
    for one in sorted(lines, key=lambda one: places[one["ids"][0]]):
        key = one["kind"], one["verdict"], one["detail"], tuple(one["variants"])
        found[key] += one["ids"]
    return [answer(*key, sorted(names, key=places.__getitem__)) for key, names in found.items()]


def _unsupported(parts: Iterable[Entry], places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the reasons with their counts, and the first vector of each."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    lines = [one for each in parts for one in each["unsupported"]]
    for one in sorted(lines, key=lambda one: places[one["example"]]):
        start = {**one, "count": 0}
        found.setdefault((one["kind"], one["reason"]), start)["count"] += one["count"]
    return sorted(found.values(), key=by_kind_and_count)
