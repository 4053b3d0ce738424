"""A run as JSON lines: a header, one line for each result, and a footer with the sums."""

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..format import vectors
from ..runner.repeat import start_of_command
from ..runner.run import VERDICTS, Result, kind_of, worst_first
from . import values
from .expected import Excused

FORMAT = "report-1"
PLAIN = ("exact", "unsupported")  # verdicts of results without call and answer

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """A run as JSON values."""

    header: Json
    results: tuple[Json, ...]

    @property
    def footer(self) -> dict[str, Any]:
        """The sums: total = applicable + unsupported, and the verdicts add up to total."""
        counts = Counter(result["verdict"] for result in self.results)
        total = len(self.results)
        sums = {"total": total, "applicable": total - counts["unsupported"]}
        return {"kind": "footer"} | sums | {name: counts[name] for name in VERDICTS}


def of_run(
    results: Sequence[Result],
    implementation: str,
    start: str | None = None,
    runs_on: Mapping[str, str] | None = None,
) -> Report:
    """Return the report of a run.

    `start` begins the command that repeats one of its vectors; `runs_on` is what the adapter says
    of its device and its versions.
    """
    header = {
        "kind": "header",
        "report": FORMAT,
        "suite": __version__,
        "implementation": implementation,
        "variants": list(dict.fromkeys(result.variant for result in results)),
        "repeat": start or start_of_command(implementation),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **({"runs_on": dict(runs_on)} if runs_on else {}),
        "legend": _legend(results),
    }
    return Report(header, tuple(map(_line, results)))


def kind(result: Json) -> str:
    """Return the kind of a failure."""
    return kind_of(result["verdict"], result["valid"], result["details"])


def rank(result: Json) -> tuple[int, bool]:
    """Return a key that sorts failures, the worst first."""
    return worst_first(kind(result), result["valid"])


def write(path: Path, report: Report) -> None:
    """Write a report."""
    lines = [report.header, *report.results, report.footer]
    path.write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8"
    )


def _line(result: Result) -> dict[str, Any]:
    vector, outcome = result.vector, result.outcome
    return {
        "kind": "result",
        **{name: getattr(vector, name) for name in ("id", "rev", "operator", "topic", "comment")},
        "variant": result.variant,
        "verdict": result.verdict,
        "details": list(outcome.details),
        "seconds": round(result.seconds, 6),
        "clause": list(vector.clause),
        "flags": sorted(vector.flags),
        "requires": sorted(vector.requires),
        "dtypes": values.data_types(vector),
        "valid": vector.is_valid,
        **({"twin": vector.base} if vector.base else {}),
        **({"beside": vector.paired_with.id} if vector.paired_with else {}),
        **({"was": outcome.was, "reason": outcome.reason} if isinstance(outcome, Excused) else {}),
        **(values.evidence(vector, outcome.answer) if result.verdict not in PLAIN else {}),
    }


def _legend(results: Sequence[Result]) -> dict[str, dict[str, str]]:
    """Return the words for the clauses and flags of the vectors."""
    paths = dict.fromkeys(result.vector.file for result in results)
    files = [vectors.parse(path.read_text(encoding="utf-8")) for path in paths]
    kinds = {"clauses": "clauses", "flags": "notes"}
    return {
        kind: {word: text for file in files for word, text in file[key].items()}
        for kind, key in kinds.items()
    }
