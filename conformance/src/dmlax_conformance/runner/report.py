"""Showing a run on the console: what went wrong, tables by flag and by operator, and the sums."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from ..exit_codes import UNUSABLE
from ..format.vectors import Vector
from ..oracle.clauses import NOTES
from ..terminal import Table, complain
from ..texts import printable
from .adapter import Adapter
from .compare import describe
from .repeat import command
from .run import FAILED, KINDS, Result, in_turns, totals, why_declined, worst_first
from .share import applying, judged, share_of, shortfalls, values_of

DECLINED, NOT_APPLICABLE = UNANSWERED = ("declined", "not applicable")
COLUMNS = ("exact", "permitted", *KINDS, "expected", *UNANSWERED)
EXPLAINED = 3  # the flags whose meaning follows their table
OTHER = "another data type or rank than is declared"


def _table(head: str, rows: Mapping[str, Counter[str]]) -> Table:
    """Return rows of counts; columns that hold nothing are left out."""
    kept = [name for name in COLUMNS if name == "exact" or any(row[name] for row in rows.values())]
    shown = Table(head, "total", "answered", *kept, is_numeric=True)
    for name, row in rows.items():
        answered = row.total() - sum(row[kind] for kind in UNANSWERED)
        shown.add_row(name, *map(str, (row.total(), answered, *(row[kind] for kind in kept))))
    return shown


def tables(results: Sequence[Result], columns: Sequence[str]) -> list[str]:
    """Return a table of the flags that failures have, those with the largest share of them first,
    what the first flags mean, and a table of the operators that ends with sums; each result counts
    in a column.
    """
    flags = defaultdict[str, Counter[str]](Counter)
    operators = defaultdict[str, Counter[str]](Counter)
    sums = defaultdict[str, Counter[str]](Counter)
    for result, column in zip(results, columns, strict=True):
        operators[result.vector.operator][column] += 1
        sums[f"all, {result.variant}"][column] += 1
        for flag in result.vector.flags:
            flags[flag][column] += 1
    shares = {  # few results do not raise one to 1
        flag: sum(counts[kind] for kind in KINDS) / (counts.total() + 1)
        for flag, counts in flags.items()
    }
    worst = sorted((flag for flag in flags if shares[flag]), key=lambda flag: (-shares[flag], flag))
    of_flags = [str(_table("flag", {flag: flags[flag] for flag in worst}))] if worst else []
    of_flags += [f"{flag}: {NOTES[flag]}" for flag in worst[:EXPLAINED] if flag in NOTES]
    of_variants = sums if len(sums) > 1 else {}
    last = {**of_variants, "all": sum(sums.values(), Counter[str]())}
    return [*of_flags, str(_table("operator", dict(sorted(operators.items())) | last))]


def show(
    results: Sequence[Result],
    start: str,
    limit: int,
    adapter: Adapter | None = None,
    left_out: Mapping[str, int] | None = None,
    failing: Collection[str] = FAILED,
) -> None:
    """Print the failures, worst first, the tables, and the sums with what is left out."""
    bad = in_turns(
        (result for result in results if result.verdict in failing),
        lambda result: worst_first(result.kind, result.vector.is_valid),
        lambda result: result.vector.operator,
    )
    lines = [line for result in bad[:limit] for line in explain(result, start)]
    if len(bad) > limit:
        lines.append(f"... and {len(bad) - limit} more; --report keeps them all")
    rows = [judged(adapter, result) for result in results]
    columns, others = [], Counter[str]()
    for result, applies in zip(results, applying(rows), strict=True):
        column = result.kind if result.verdict in FAILED else result.verdict
        if result.verdict == "unsupported":
            column = DECLINED if applies else NOT_APPLICABLE
        columns.append(column)
        if adapter is not None and not applies:
            vectors = filter(None, (result.vector, result.vector.paired_with))
            reasons = (why_declined(adapter, vector, result.variant) for vector in vectors)
            others[next(filter(None, reasons), OTHER)] += 1
    lines += tables(results, columns)
    if bad:
        kinds = Counter(result.kind for result in bad)
        lines.append(f"failures: {totals(kinds)}")
        broken = sum(not result.vector.is_valid for result in bad)
        if broken:
            lines[-1] += (
                f"; {broken} on calls that have to be refused (--valid-only leaves these out)"
            )
    last = [f"{values_of(rows).total()} right values", f"{share_of(rows)}"]
    last += (
        [f"not applicable: {', '.join(name for name, _ in others.most_common())}"] if others else []
    )
    gone = ", ".join(f"{number} {name}" for name, number in (left_out or {}).items() if number)
    print("\n".join([*lines, "; ".join([*last, *([f"left out: {gone}"] if gone else [])])]))


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
        f"{result.verdict.upper()} {vector.id} [{result.variant}]",
        f"  {vector.comment}",
        *(f"  {line}" for line in result.outcome.details),
        *(f"  given {name} {describe(tensor)}" for name, tensor in vector.inputs.items()),
        *(f"  given {text}" for text in _fields(vector)),
        f"  repeat: {command(start, result.variant, vector.id)}",
    ]


def _fields(vector: Vector) -> list[str]:
    """Return the attributes in a line, or a line for each field of a desc."""
    fields = (
        {**vector.desc, "FeatureLevel": vector.feature_level} if vector.desc else vector.attributes
    )
    texts = [f"{name} {printable(value)}" for name, value in fields.items()]
    return texts if vector.desc or not texts else [", ".join(texts)]
