"""Files of results: a table is a line of columns, then a row on each line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Mapping[str, Any]]


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
            report |= {key: _rows(table) for key, table in report.items() if key != "facts"}
    return contents


def _report(report: Mapping[str, Any]) -> str:
    facts = {key: json.dumps(value) for key, value in report.items() if key == "facts"}
    return _object(facts | {key: _table(report[key]) for key in ("rows", "targets")})


def _table(rows: Rows) -> str:
    lines = [[*rows[0]], *([*row.values()] for row in rows)] if rows else []
    return "[\n" + ",\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n]"


def _rows(table: Sequence[Sequence[Any]]) -> Rows:
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def _object(members: Mapping[str, str]) -> str:
    lines = [f"{json.dumps(name)}: {text}" for name, text in members.items()]
    return "{\n" + ",\n".join(lines) + "\n}"
