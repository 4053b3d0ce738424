"""Showing a run to people (a table) and to programs (JSON lines)."""

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from . import __version__
from .compare import describe
from .runner import VERDICTS, Result, Totals
from .vectors import Vector

COLUMNS = ("total", "applicable", *VERDICTS)


def table(results: Sequence[Result]) -> Table:
    """Return operators against verdicts, with a last row of sums."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("operator", no_wrap=True)
    for name in COLUMNS:
        shown.add_column(name, justify="right")
    for operator in sorted({result.vector.operator for result in results}):
        own = [result for result in results if result.vector.operator == operator]
        shown.add_row(operator, *map(str, _numbers(Totals.of(own)).values()))
    shown.add_row("all", *map(str, _numbers(Totals.of(results)).values()), style="bold")
    return shown


def print_failures(
    console: Console, results: Sequence[Result], implementation: str, limit: int
) -> None:
    """Print each failure with its inputs and the command that repeats it."""
    bad = [result for result in results if result.verdict in ("fail", "error")]
    for result in bad[:limit]:
        for line in explain(result, implementation):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(bad) > limit:
        console.print(f"... and {len(bad) - limit} more; --report keeps them all", markup=False)


def explain(result: Result, implementation: str) -> list[str]:
    """Return the lines about one failure."""
    vector = result.vector
    repeat = f"--implementation {implementation} --variant {result.variant} --id {vector.id}"
    return [
        f"{result.verdict.upper()} {vector.id} [{result.variant}] {vector.comment}",
        *(f"  {line}" for line in result.outcome.details),
        *(f"  given {name} {describe(tensor)}" for name, tensor in vector.inputs.items()),
        *(f"  given {name} {value}" for name, value in _fields(vector).items()),
        f"  repeat: dmlax-conformance run {repeat}",
    ]


def _fields(vector: Vector) -> dict[str, Any]:
    if vector.desc is None:
        return dict(vector.attributes)
    return {**vector.desc, "FeatureLevel": vector.feature_level}


def write_lines(path: Path, results: Sequence[Result], implementation: str) -> None:
    """Write a header, one line for each result, and a footer with the sums."""
    lines = [_header(implementation), *map(_line, results), _footer(results)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _numbers(totals: Totals) -> dict[str, int]:
    counts = {name: totals.counts[name] for name in VERDICTS}
    return {"total": totals.total, "applicable": totals.applicable} | counts


def _header(implementation: str) -> dict[str, Any]:
    return {
        "kind": "header",
        "suite": __version__,
        "implementation": implementation,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _line(result: Result) -> dict[str, Any]:
    return {
        "kind": "result",
        "id": result.vector.id,
        "rev": result.vector.rev,
        "operator": result.vector.operator,
        "variant": result.variant,
        "verdict": result.verdict,
        "details": list(result.outcome.details),
        "seconds": round(result.seconds, 6),
    }


def _footer(results: Sequence[Result]) -> dict[str, Any]:
    return {"kind": "footer"} | _numbers(Totals.of(results))
