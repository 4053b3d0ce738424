"""The digest of the vectors of a release, which proves that none is lost, changed or reused.

It covers what vectors say, without comment, file and folder. `digest.json` holds it, with four
hexadecimal digits for each vector in the order of the ids, by operator: they tell which vector
differs. A vector that was mended is listed there with the reason and with what it was.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parent / "digest.json"
RELEASE = "0.1.0"
MARK = 4  # digits


class Line(NamedTuple):
    """A vector as the digest has it, and where it is written."""

    place: str
    operator: str
    since: str
    text: str


def text_of(value: Mapping[str, Any]) -> str:
    """Return what a vector says, on one line."""
    kept = {name: each for name, each in value.items() if name != "comment"}
    return json.dumps(kept, sort_keys=True, default=str)


def line(place: str, value: Mapping[str, Any]) -> Line:
    """Return the line of a vector with its operator."""
    return Line(place, value["operator"], value.get("since", ""), text_of(value))


def digest(texts: Iterable[str]) -> str:
    """Return the SHA-256 of the lines of vectors, which are in the order of their ids."""
    return hashlib.sha256("".join(f"{text}\n" for text in texts).encode()).hexdigest()


def mark(text: str) -> str:
    """Return the first digits of the digest of one line."""
    return hashlib.sha256(text.encode()).hexdigest()[:MARK]


def problems(lines: Mapping[str, Line], path: Path = FILE) -> Iterator[str]:
    """Complain about vectors of the release that are lost, changed or new without `since`."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    release, mended = stored[RELEASE], stored["mended"]
    old = {name: line for name, line in lines.items() if not line.since}
    for name in sorted(mended.keys() - old.keys()):
        yield f"{path.name}: {name} is mended, but no vector of {RELEASE} has this id"
    for name, entry in mended.items():
        old[name] = line(path.name, entry["was"])
    texts = {name: old[name].text for name in sorted(old)}
    if digest(texts.values()) == release["sha256"]:
        return
    for operator, wanted in release["marks"].items():
        names = [name for name in texts if old[name].operator == operator]
        yield from _differing(operator, wanted, names, old)
    yield f"{len(texts)} vectors have no `since`; {RELEASE} had {release['vectors']}, or others"


def _differing(
    operator: str, wanted: str, names: list[str], lines: Mapping[str, Line]
) -> Iterator[str]:
    """Name the vectors of an operator that differ from the release."""
    then = [wanted[at : at + MARK] for at in range(0, len(wanted), MARK)]
    now = [mark(lines[name].text) for name in names]
    for kind, a, b, c, d in SequenceMatcher(None, then, now, autojunk=False).get_opcodes():
        before = f"after {names[c - 1]} ({lines[names[c - 1]].place})" if c else "at the start"
        if kind != "equal" and b - a > d - c:
            lost = b - a - (d - c)
            yield f"vectors/{operator}: {lost} vectors of {RELEASE} are lost {before}"
        for name in names[c:d] if kind != "equal" else ():
            what = f"is not what it was in {RELEASE}: list a mend in {FILE.name}"
            yield f"{lines[name].place}: {name} {what}, or give a new vector `since`"
