"""Showing a run on the console: a table, and what went wrong."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ..exit_codes import UNUSABLE
from ..format.vectors import Vector
from ..terminal import Table, complain
from ..texts import printable
from .adapter import Adapter
from .compare import describe
from .repeat import command
from .run import VERDICTS, Result, Totals
from .share import judged, share_of, shortfalls, values_of

COLUMNS = ("total", "applicable", *VERDICTS)


def table(results: Sequence[Result]) -> Table:
    """Return operators against verdicts, with a last row of sums."""
    shown = Table("operator", *COLUMNS, is_numeric=True)
    operators = sorted({result.vector.operator for result in results})
    for name in (*operators, "all"):
        totals = Totals.of(r for r in results if name in ("all", r.vector.operator))
        counts = totals.total, totals.applicable, *(totals.counts[verdict] for verdict in VERDICTS)
        shown.add_row(name, *map(str, counts))
    return shown


def flags(failures: Sequence[Result]) -> list[str]:
    """Return a table of the flags of failures, the commonest first; nothing without failures."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for result in failures:
        for flag in result.vector.flags:
            counts[flag][result.verdict] += 1
    shown = Table("failures by flag", "fail", "error", is_numeric=True)
    for flag, own in sorted(counts.items(), key=lambda item: (-item[1].total(), item[0])):
        shown.add_row(flag, str(own["fail"]), str(own["error"]))
    return [str(shown)] if counts else []


def show(
    results: Sequence[Result],
    start: str,
    limit: int,
    adapter: Adapter | None = None,
    left_out: Sequence[str] = (),
) -> None:
    """Print the failures, worst first, the tables, what was computed, and what was left out."""
    bad = [result for result in results if result.verdict in ("fail", "error")]
    bad.sort(key=attrgetter("rank"))
    lines = [line for result in bad[:limit] for line in explain(result, start)]
    if len(bad) > limit:
        lines.append(f"... and {len(bad) - limit} more; --report keeps them all")
    rows = [judged(adapter, result) for result in results]
    computed = [f"{name} ({count} values)" for name, count in sorted(values_of(rows).items())]
    lines += [*flags(bad), str(table(results)), f"computed: {', '.join(computed) or 'nothing'}"]
    more = f"; left out: {', '.join(left_out)}" if left_out else ""
    print("\n".join([*lines, f"{share_of(rows)}{more}"]))


def complain_of_shortfalls(
    results: Sequence[Result],
    least: int | None = None,
    min_share: float | None = None,
    adapter: Adapter | None = None,
) -> bool:
    """Print why the results prove too little, and say whether they do."""
    lines = shortfalls([judged(adapter, result) for result in results], least, min_share)
    for line in lines:
        complain(line, UNUSABLE)
    return bool(lines)


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
