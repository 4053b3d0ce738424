"""The commands `export` and `check`."""

import argparse
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import Unsupported
from ..exit_codes import FAILED, FINE, UNUSABLE
from ..format import vectors
from ..format.vectors import Vector
from ..options import FILTERS, add_command
from ..suite import report, runner
from ..terminal import complain
from . import case_files, dxdispatch, onnx_backend
from .results import Results

FORMATS: dict[str, Callable[[Vector, Path], None]] = {
    "onnx": onnx_backend.write,
    "dxdispatch": dxdispatch.write,
    "json": case_files.write,
}


def add_commands(commands: Any) -> None:
    """Add both commands."""
    text = "write vectors for a program that runs elsewhere"
    export = add_command(commands, "export", _export, text, *FILTERS)
    export.add_argument("--format", required=True, choices=FORMATS)
    export.add_argument("--output", required=True, type=Path, metavar="DIR")
    text = "judge results that a program wrote"
    check = add_command(commands, "check", _check, text, *FILTERS, "max-shown")
    check.add_argument("--results", required=True, type=Path, metavar="DIR")
    check.add_argument("--variant", choices=Results.variants, help=argparse.SUPPRESS)


def _export(options: argparse.Namespace) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    left_out: Counter[str] = Counter()
    written = _with_pairs(vectors.selected(options))
    for vector in written:
        if vector.memory:
            left_out["too large for a file"] += 1
            continue
        try:
            FORMATS[options.format](vector, options.output)
        except Unsupported as error:
            left_out[str(error)] += 1
    number = len(written) - left_out.total()
    print(f"{number} written, {left_out.total()} left out")
    for reason, times in left_out.most_common():
        print(f"  {times}: {reason}")
    return FINE if number else UNUSABLE


def _with_pairs(chosen: Sequence[Vector]) -> list[Vector]:
    """Add the vectors without which some of these do not count."""
    every = {vector.id: vector for vector in chosen}
    for vector in chosen:
        if vector.paired_with is not None:
            every.setdefault(vector.paired_with.id, vector.paired_with)
    return list(every.values())


def _check(options: argparse.Namespace) -> int:
    every = vectors.load_all(options.vectors)
    wanted = (options.operator, options.id, options.flag)
    chosen = [vector for vector in every if vectors.matches(vector, *wanted)]
    adapter = Results(options.results, {vector.id for vector in every})
    results = list(runner.run(adapter, chosen, adapter.variants))
    start = shlex.join(["dmlax-conformance", "check", "--results", str(options.results)])
    report.show(results, start, options.max_shown)
    given = [result for result in results if result.verdict != "unsupported"]
    if not given:
        return complain("no result", UNUSABLE)
    lacking = report.complain_of_shortfalls(given)
    counts = runner.Totals.of(results).counts
    return FAILED if counts["fail"] + counts["error"] else UNUSABLE if lacking else FINE
