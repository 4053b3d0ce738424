"""The commands `export` and `check`."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import Unsupported
from ..exit_codes import FAILED, FINE, UNUSABLE
from ..format import limits, vectors
from ..format.vectors import Vector
from ..suite import report, runner
from ..terminal import Console
from . import case_files, dxdispatch, onnx_backend
from .results import Results

FORMATS: dict[str, Callable[[Vector, Path], None]] = {
    "onnx": onnx_backend.write,
    "dxdispatch": dxdispatch.write,
    "json": case_files.write,
}

Selected = Callable[[argparse.Namespace], list[Vector]]


def add_commands(
    commands: Any, add_filters: Callable[[argparse.ArgumentParser], None], selected: Selected
) -> None:
    """Add both commands; the filters and what they select are the caller's."""
    export = commands.add_parser("export", help="write vectors for a program that runs elsewhere")
    export.add_argument("--format", required=True, choices=FORMATS)
    export.add_argument("--output", required=True, type=Path, metavar="DIR")
    export.set_defaults(command=lambda options: _export(options, selected(options)))
    check = commands.add_parser("check", help="judge results that a program wrote")
    check.add_argument("--results", required=True, type=Path, metavar="DIR")
    check.add_argument("--max-shown", type=int, default=10, help="failures to print")
    check.add_argument("--variant", choices=Results.variants, help=argparse.SUPPRESS)
    check.set_defaults(command=lambda options: _check(options, selected(options)))
    for parser in (export, check):
        parser.add_argument("--vectors", type=Path, help="another folder of vectors")
        add_filters(parser)


def _export(options: argparse.Namespace, chosen: Sequence[Vector]) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    left_out: Counter[str] = Counter()
    written = _with_pairs(chosen)
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


def _check(options: argparse.Namespace, chosen: Sequence[Vector]) -> int:
    adapter = Results(options.results, _ids(options.vectors))
    results = list(runner.run(adapter, chosen, adapter.variants))
    console = Console(width=None if sys.stdout.isatty() else 120)
    start = shlex.join(["dmlax-conformance", "check", "--results", str(options.results)])
    report.print_failures(console, results, start, options.max_shown)
    console.print(report.table(results))
    totals = runner.Totals.of(results)
    if not totals.applicable:
        print("dmlax-conformance: no result", file=sys.stderr)
        return UNUSABLE
    return FAILED if totals.counts["fail"] + totals.counts["error"] else FINE


def _ids(root: Path | None) -> set[str]:
    """Return every id, also of vectors that were not selected."""
    files = (vectors.parse(limits.read(path)) for path in vectors.find(root))
    return {vector["id"] for file in files for vector in file["vectors"]}
