"""Showing a run on the console: a table, and what went wrong."""

from collections.abc import Sequence
from typing import Any

from ..exit_codes import UNUSABLE
from ..format.vectors import Vector
from ..terminal import Console, Table, complain, console
from ..texts import printable
from . import runner
from .compare import describe
from .repeat import command
from .runner import VERDICTS, Result, Totals

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


def show(results: Sequence[Result], start: str, limit: int) -> None:
    """Print the failures and the table."""
    shown = console()
    _print_failures(shown, results, start, limit)
    shown.print(table(results))
    values = runner.values_of(result.judged for result in results)
    computed = [f"{name} ({count} values)" for name, count in sorted(values.items())]
    shown.print(f"computed: {', '.join(computed) or 'nothing'}", soft_wrap=True, highlight=False)


def complain_of_shortfalls(results: Sequence[Result], least: int | None = None) -> bool:
    """Print why the results prove too little, and say whether they do."""
    found = runner.shortfalls([result.judged for result in results], least)
    for line in found:
        complain(line, UNUSABLE)
    return bool(found)


def _print_failures(console: Console, results: Sequence[Result], start: str, limit: int) -> None:
    """Print each failure with its inputs and the command that repeats it, given its start."""
    bad = [result for result in results if result.verdict in ("fail", "error")]
    for result in bad[:limit]:
        for line in explain(result, start):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(bad) > limit:
        console.print(f"... and {len(bad) - limit} more; --report keeps them all", markup=False)


def explain(result: Result, start: str) -> list[str]:
    """Return the lines about one failure."""
    vector = result.vector
    return [
        f"{result.verdict.upper()} {vector.id} [{result.variant}] {vector.comment}",
        *(f"  {line}" for line in result.outcome.details),
        *(f"  given {name} {describe(tensor)}" for name, tensor in vector.inputs.items()),
        *(f"  given {name} {printable(value)}" for name, value in _fields(vector).items()),
        f"  repeat: {command(start, result.variant, vector.id)}",
    ]


def _fields(vector: Vector) -> dict[str, Any]:
    if vector.desc is None:
        return dict(vector.attributes)
    return {**vector.desc, "FeatureLevel": vector.feature_level}


def _numbers(totals: Totals) -> dict[str, int]:
    counts = {name: totals.counts[name] for name in VERDICTS}
    return {"total": totals.total, "applicable": totals.applicable} | counts
