"""Changes between two reports, and whether anything got worse."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..runner.run import FAILED, PASSED
from .expected import key_of
from .lines import Json, Report

WORSE = ("newly failing", "newly expected to fail", "newly unsupported", "vanished")
KINDS = (
    *(*WORSE, "no longer exact", "failing otherwise", "now expected to fail", "no longer tried"),
    *("fixed", "newly supported", "now exact", "appeared", "rev changed"),
)
FACTS = ("implementation", "suite", "python", "machine")


class Change(NamedTuple):
    """One vector in one variant that is no longer what it was."""

    kind: str
    key: str
    text: str


def changes(old: Report, new: Report) -> list[Change]:
    """Return every change, in the order of the kinds and then of the ids."""
    found = _changes(_by_key(old), _by_key(new))
    return sorted(found, key=lambda change: (KINDS.index(change.kind), change.key))


def worse(found: list[Change], strict: bool = False) -> list[Change]:
    """Return the changes for the worse; to be no longer exact is one if `strict`."""
    kinds = {*WORSE, "no longer exact"} if strict else {*WORSE}
    return [change for change in found if change.kind in kinds]


def lines(old: Report, new: Report, found: list[Change]) -> Iterator[str]:
    """Yield what to print."""
    for name in FACTS:
        if old.header[name] != new.header[name]:
            yield f"{name}: {old.header[name]} -> {new.header[name]}"
    for kind in KINDS:
        own = [change for change in found if change.kind == kind]
        if own:
            yield f"{kind}: {len(own)}"
            yield from (f"  {change.key}: {change.text}" for change in own)
    moved = {change.key for change in found if change.kind != "rev changed"}
    same = len(_by_key(old).keys() & _by_key(new).keys() - moved)
    yield f"{len(old.results)} results before, {len(new.results)} now, {same} with the same verdict"


def _by_key(report: Report) -> dict[str, Json]:
    return {key_of(result["id"], result["variant"]): result for result in report.results}


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Change]:
    for key in old.keys() | new.keys():
        before, after = old.get(key), new.get(key)
        verdicts = [each["verdict"] if each else None for each in (before, after)]
        if verdicts[0] != verdicts[1]:
            text = " -> ".join(filter(None, verdicts))
            details = (after or {}).get("details", ())
            yield Change(_kind(*verdicts), key, "; ".join([text, *details[:1]]))
        if before and after and before["rev"] != after["rev"]:
            yield Change("rev changed", key, f"{before['rev']} -> {after['rev']}")


def _kind(before: str | None, after: str | None) -> str:
    """Return what to call a change of verdict; None is a result that does not exist."""
    if after is None:
        return "vanished"
    if after in FAILED:
        return "failing otherwise" if before in FAILED else "newly failing"
    if before is None:
        return "appeared"
    if after == "expected":
        return "now expected to fail" if before in FAILED else "newly expected to fail"
    if after == "unsupported":
        return "newly unsupported" if before in PASSED else "no longer tried"
    if before in PASSED:
        return "now exact" if after == "exact" else "no longer exact"
    return "newly supported" if before == "unsupported" else "fixed"
