"""Files of results: a table is a line of columns, then a row on each line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

Rows = Sequence[Mapping[str, Any]]
GROUPS = ("operator", "network", "peer", "weights", "layout", "batch", "arithmetic")
FIGURES = ("ratio", "speed-up", "over torch", "of copy", "of bound", "of reading", "share of peak")


def as_text(contents: Mapping[str, Any]) -> str:
    """Return the text of a file: the environment, and the reports by name."""
    members = {name: json.dumps(value) for name, value in contents.items()}
    members |= {name: _report(value) for name, value in contents.items() if name != "environment"}
    return _object(members) + "\n"


def read(path: Path) -> dict[str, Any]:
    """Return the environment and the reports of a file, rows as dictionaries."""
    contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name, report in contents.items():
        if name != "environment":
            names, *rows = report["rows"]
            report["rows"] = [dict(zip(names, row, strict=True)) for row in rows]
    return contents


def summary(rows: Rows) -> list[dict[str, Any]]:
    """Geometric means of the relative figures, and their ends, for each group of several rows."""
    groups = [name for name in GROUPS if name in rows[0]]
    figures = [name for name in FIGURES if name in rows[0]]
    members: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        members.setdefault(tuple(row[name] for name in groups), []).append(row)
    if len(members) == len(rows):
        return []
    return [
        dict(zip(groups, key, strict=True))
        | {name: _mean([row[name] for row in some if row[name] != ""]) for name in figures}
        for key, some in members.items()
    ]


def _mean(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{geometric_mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _report(report: Mapping[str, Any]) -> str:
    facts = {key: json.dumps(value) for key, value in report.items() if key == "facts"}
    return _object(facts | {"rows": _table(report["rows"])})


def _table(rows: Rows) -> str:
    lines = [[*rows[0]], *([*row.values()] for row in rows)]
    return "[\n" + ",\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n]"


def _object(members: Mapping[str, str]) -> str:
    lines = [f"{json.dumps(name)}: {text}" for name, text in members.items()]
    return "{\n" + ",\n".join(lines) + "\n}"
