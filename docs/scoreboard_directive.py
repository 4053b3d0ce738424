"""The newest dated results of conformance/scoreboard as tables, with a reason for each failure."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from itertools import chain
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
        lambda n: (n["exact"], n["permitted"], _wrong(n), n["unsupported"]),
    ),
    (
        "Calls that break a rule",
        ("right error", "accepted", "declined"),
        lambda n: (_right(n), _wrong(n), n["unsupported"]),
    ),
    (
        "DirectML descs, valid and invalid",
        ("right", "wrong", "cannot run"),
        lambda n: (_right(n), _wrong(n), n["unsupported"]),
    ),
)

Entry = Mapping[str, Any]
Verdicts = Mapping[str, Mapping[str, int | list[str]]]  # of a kind: a count, or ids


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
            for one in chain(*groups.pop("", {}).values()):
                message = "%s: no reason for %s in scoreboard/reasons.json"
                logging.getLogger(__name__).warning(message, name, one)
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
    for kind, (title, columns, columns_of) in zip(_KINDS, _TABLES, strict=True):
        rows = [
            (name, variant, *columns_of(verdicts))
            for name, entry in entries.items()
            for variant, operators in entry["variants"].items()
            if (verdicts := _sum(operators.values(), kind)).total()
        ]
        text += [f"**{title}**", table(("implementation", "variant", *columns), rows)]
    return "\n\n".join(text)


def _sum(operators: Iterable[Mapping[str, Verdicts]], kind: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for kinds in operators:
        for verdict, ids in kinds.get(kind, {}).items():
            total[verdict] += ids if isinstance(ids, int) else len(ids)
    return total


def _right(counts: Counter[str]) -> int:
    return counts["exact"] + counts["permitted"]


def _wrong(counts: Counter[str]) -> int:
    return counts["fail"] + counts["error"]


def _groups(
    name: str, entry: Entry, reasons: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, list[str]]]:
    """Vectors that differ, by the reason that covers them, or "", and by verdict.

    Calls that break a rule need no reason.
    """
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for kinds in chain(*(operators.values() for operators in entry["variants"].values())):
        listed = [verdicts for kind, verdicts in kinds.items() if kind != "refusals"]
        for verdict, ids in chain(*(verdicts.items() for verdicts in listed)):
            for vector in () if isinstance(ids, int) else ids:
                why = _reason(name, vector, reasons)
                if vector not in groups[why][verdict]:
                    groups[why][verdict].append(vector)
    return groups


def _reason(name: str, vector: str, reasons: Sequence[Mapping[str, Any]]) -> str:
    """The reason that covers a vector of an implementation; "" without one."""
    for reason in reasons:
        if name in reason["implementations"] and any(fnmatch(vector, p) for p in reason["ids"]):
            return str(reason["why"])
    return ""


def _section(entry: Entry, groups: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in entry["versions"].items())
    text = [f"{versions}."] if versions else []
    text.append(_operators(entry))
    if groups:
        rows = [
            (why, verdict, " ".join(f"`{one}`" for one in ids))
            for why, verdicts in groups.items()
            for verdict, ids in verdicts.items()
        ]
        text += ["Results that differ, and why:", table(("why", "verdict", "vectors"), rows)]
    if entry["refusals"]:
        rows = _broken(entry["refusals"])
        text += ["Calls that break a rule:", table(("outcome", "vectors"), rows)]
    if entry["unsupported"]:
        rows = [
            (kind, reason, cases["count"], f"`{cases['example']}`")
            for kind in _KINDS
            for reason, cases in _commonest(entry["unsupported"].get(kind, {}))
        ]
        head = ("kind", "reason", "cases", "for example")
        text += ["Cases that it cannot run:", table(head, rows)]
    return text


def _commonest(reasons: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(reasons.items(), key=lambda item: (-item[1]["count"], item[0]))


def _broken(outcomes: Mapping[str, int]) -> list[tuple[str, str]]:
    """The outcomes of calls that break a rule, with the number of vectors for each field."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome, number in outcomes.items():
        what, _, field = outcome.partition(" on ")
        counts[what][f" `{field}`" if field else ""] += number
    return [
        (what, ", ".join(f"{number}{field}" for field, number in fields.most_common()))
        for what, fields in sorted(counts.items())
    ]


def _operators(entry: Entry) -> str:
    """The number of exact valid calls of each operator, and of all."""
    names = sorted({name for operators in entry["variants"].values() for name in operators})
    rows = []
    for name in names:
        counts = [_sum([ops.get(name, {})], "values") for ops in entry["variants"].values()]
        rows.append((f"`{name}`", *(f"{one['exact']} of {one.total()}" for one in counts)))
    return table(("valid calls that are exact", *entry["variants"]), rows)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.add_directive("scoreboard", Scoreboard)
    return {"parallel_read_safe": True}
