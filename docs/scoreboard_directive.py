"""The newest dated results of conformance/scoreboard as tables, with a reason for each failure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from tables import table

_FOLDER = Path(__file__).parent.parent / "conformance" / "scoreboard"
_KINDS = ("values", "refusals", "descriptors")
_TABLES = (  # what the vectors are, and the columns of their table
    (
        "Valid calls",
        ("exact", "permitted", "wrong", "cannot run"),
        lambda found: (found["exact"], found["permitted"], _wrong(found), found["unsupported"]),
    ),
    (
        "Calls that break a rule",
        ("right error", "accepted", "declined"),
        lambda found: (_right(found), _wrong(found), found["unsupported"]),
    ),
    (
        "DirectML descs, valid and invalid",
        ("right", "wrong", "cannot run"),
        lambda found: (_right(found), _wrong(found), found["unsupported"]),
    ),
)

Entry = Mapping[str, Any]


class Scoreboard(SphinxDirective):
    """`overview`: one table; `details`: a section for each implementation, to end a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Nodes made from Markdown."""
        path = sorted(_FOLDER.glob("[0-9]*.json"))[-1]
        record, reasons = (self._read(file) for file in (path, _FOLDER / "reasons.json"))
        entries: Mapping[str, Entry] = record["implementations"]
        if self.arguments == ["overview"]:
            return self.parse_text_to_nodes(
                f"{_when(entries)}\n\n{_overview(entries)}\n{_LEGEND}\n"
            )
        text = []
        for name, entry in entries.items():
            groups = _groups(name, entry, reasons)
            for answer in groups.pop("", ()):
                message = "%s: no reason for %s in scoreboard/reasons.json"
                logging.getLogger(__name__).warning(message, name, answer["ids"])
            text += [f"## {name}", *_section(entry, groups)]
        return self.parse_text_to_nodes("\n\n".join(text) + "\n", allow_section_headings=True)

    def _read(self, path: Path) -> Any:
        self.env.note_dependency(path)
        return json.loads(path.read_text(encoding="utf-8"))


_LEGEND = """*Permitted*: differs from the expected elements only where DirectML leaves them
open. *Accepted*: an invalid call was computed, which counts as wrong. *Declined*: it raised an
exception without a code, or the implementation cannot express it."""


def _when(entries: Mapping[str, Entry]) -> str:
    """A sentence for each run: the implementations that saw the same vectors on one machine."""
    runs: dict[str, list[str]] = defaultdict(list)
    for name, entry in entries.items():
        where = f"Python {entry['python']} on {entry['machine']}"
        run = f"{entry['vectors']:,} vectors, run on {entry['date']} with {where}"
        runs[run].append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}: {run}." for run, names in runs.items())


def _overview(entries: Mapping[str, Entry]) -> str:
    text = []
    for kind, (title, columns, count) in zip(_KINDS, _TABLES, strict=True):
        rows = [
            (name, variant, *count(found))
            for name, entry in entries.items()
            for variant, operators in entry["variants"].items()
            if (found := _sum(operators.values(), kind)).total()
        ]
        text += [f"**{title}**", table(("implementation", "variant", *columns), rows)]
    return "\n\n".join(text)


def _sum(operators: Iterable[Mapping[str, Mapping[str, int]]], kind: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for counts in operators:
        total.update(counts.get(kind, {}))
    return total


def _right(counts: Counter[str]) -> int:
    return counts["exact"] + counts["permitted"]


def _wrong(counts: Counter[str]) -> int:
    return counts["fail"] + counts["error"]


def _groups(
    name: str, entry: Entry, reasons: Sequence[Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    """The answers to valid calls and descs, by the reason that covers them; "" without one."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for answer in entry["answers"]:
        if answer["kind"] == "refusals":
            continue
        for one in answer["ids"]:
            why = [
                each["why"]
                for each in reasons
                if name in each["implementations"] and any(fnmatch(one, p) for p in each["ids"])
            ]
            found[why[0] if why else ""].append({**answer, "ids": [one]})
    return found


def _section(entry: Entry, groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in entry["versions"].items())
    text = [f"{versions}."] if versions else []
    text.append(_operators(entry))
    if groups:
        rows = [(why, verdict, ids) for why, own in groups.items() for verdict, ids in _ids(own)]
        text += ["Results that differ, and why:", table(("why", "verdict", "vectors"), rows)]
    broken = [answer for answer in entry["answers"] if answer["kind"] == "refusals"]
    if broken:
        text += ["Calls that break a rule:", table(("outcome", "vectors"), _broken(broken))]
    if entry["unsupported"]:
        rows = [
            (each["kind"], each["reason"], each["count"], f"`{each['example']}`")
            for each in entry["unsupported"]
        ]
        head = ("kind", "reason", "cases", "for example")
        text += ["Cases that it cannot run:", table(head, rows)]
    return text


def _broken(answers: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The outcomes of calls that break a rule, with the number of vectors for each field."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        what, _, field = answer["detail"].partition(" on ")
        counts[what][f" `{field}`" if field else ""] += len(answer["ids"])
    return [
        (what, ", ".join(f"{number}{field}" for field, number in own.most_common()))
        for what, own in sorted(counts.items())
    ]


def _ids(answers: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    by_verdict: dict[str, list[str]] = defaultdict(list)
    for answer in answers:
        by_verdict[answer["verdict"]] += [f"`{one}`" for one in answer["ids"]]
    return [(verdict, " ".join(dict.fromkeys(ids))) for verdict, ids in by_verdict.items()]


def _operators(entry: Entry) -> str:
    """The number of exact valid calls of each operator, and of all."""
    names = sorted({name for operators in entry["variants"].values() for name in operators})
    rows = []
    for name in names:
        counts = [own.get(name, {}).get("values", {}) for own in entry["variants"].values()]
        shares = [f"{each.get('exact', 0)} of {sum(each.values())}" for each in counts]
        rows.append((f"`{name}`", *shares))
    return table(("valid calls that are exact", *entry["variants"]), rows)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.add_directive("scoreboard", Scoreboard)
    return {"parallel_read_safe": True}
