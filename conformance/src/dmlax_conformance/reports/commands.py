"""The commands and options about reports."""

import argparse
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import Unsupported, WrongUsage
from ..exit_codes import FAILED, FINE, UNUSABLE
from ..format import vectors
from ..format.canonical import dumps
from ..format.vectors import Vector
from ..options import FILTERS, add_command
from ..runner import protocol, report
from ..runner import run as runner
from ..runner.adapter import Adapter
from ..runner.repeat import start_of_command
from ..runner.run import Result
from ..terminal import complain, progress
from . import compare, html, junit, lines, reading
from .exports import onnx_backend
from .exports.results import Results

OUTPUTS = {
    "report": "write JSON lines to this file",
    "junit": "write JUnit XML to this file",
    "html": "write one HTML page to this file",
}


def write_case(vector: Vector, folder: Path) -> None:
    """Write `<id>.json`: the case of the protocol's `run`, without its expectation."""
    case = protocol.run_command(0, runner.case_of(vector), "export")["case"]
    del case["variant"]
    (folder / f"{vector.id}.json").write_text(dumps(case), encoding="utf-8")


FORMATS: dict[str, Callable[[Vector, Path], None]] = {
    "onnx": onnx_backend.write,
    "json": write_case,
}


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that are about reports."""
    for name, text in OUTPUTS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)


def add_commands(commands: Any) -> None:
    """Add `html` and `compare`, and `export` and `check` for programs that run elsewhere."""
    page = add_command(commands, "html", _html, "show reports as one HTML page", "vectors")
    page.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    page.add_argument("--output", dest="html", required=True, type=Path, metavar="FILE")
    page.set_defaults(report=None, junit=None)
    change = add_command(commands, "compare", _compare, "show what changed between two reports")
    change.add_argument("old", type=Path)
    change.add_argument("new", type=Path)
    change.add_argument("--strict", action="store_true", help="no longer exact is worse too")
    export = add_command(commands, "export", _export, "write vectors for another place", *FILTERS)
    export.add_argument("--format", required=True, choices=FORMATS)
    export.add_argument("--output", required=True, type=Path, metavar="DIR")
    check = add_command(commands, "check", _check, "judge written results", *FILTERS, "max-shown")
    check.add_argument("--results", required=True, type=Path, metavar="DIR")
    check.add_argument("--variant", choices=Results.variants, help=argparse.SUPPRESS)


def check_outputs(options: argparse.Namespace) -> None:
    """Raise `WrongUsage` now rather than lose a long run at its end."""
    for path in (getattr(options, name) for name in OUTPUTS):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise WrongUsage(f"{path} cannot be written: no such folder, or a folder itself")


def bad(strict: bool) -> frozenset[str]:
    """Return the verdicts that fail a run."""
    return runner.FAILED | {"permitted"} if strict else runner.FAILED


def write(options: argparse.Namespace, results: Sequence[Result], adapter: Adapter) -> None:
    """Write the reports that the options ask for."""
    if not any(getattr(options, name) for name in OUTPUTS):
        return
    start = start_of_command(options.implementation, options.vectors, options.time_limit)
    runs_on: dict[str, str] = getattr(adapter, "runs_on", dict)()
    written = lines.of_run(results, options.implementation, start, runs_on)
    suite = [result.vector for result in results]
    if options.report:
        lines.write(options.report, written)
    if options.junit:
        junit.write(options.junit, written, bad(options.strict))
    if options.html:
        html.write(options.html, {options.implementation: written}, suite)


def _html(options: argparse.Namespace) -> int:
    check_outputs(options)
    reports = [reading.read(path) for path in options.reports]
    named = html.named(options.reports, reports)
    html.write(options.html, named, vectors.load_all(options.vectors))
    return FINE


def _compare(options: argparse.Namespace) -> int:
    old, new = reading.read(options.old), reading.read(options.new)
    found = compare.changes(old, new)
    for line in compare.lines(old, new, found):
        print(line)
    if not new.footer["applicable"]:
        return complain(f"{options.new}: no applicable case", UNUSABLE)
    return FAILED if compare.worse(found, options.strict) else FINE


def _export(options: argparse.Namespace) -> int:
    options.output.mkdir(parents=True, exist_ok=True)
    left_out: Counter[str] = Counter()
    chosen = vectors.selected(options)
    pairs = (vector.paired_with for vector in chosen)  # without which some do not count
    written = {vector.id: vector for vector in (*chosen, *filter(None, pairs))}
    for vector in progress(written.values(), "vectors", len(written)):
        try:
            if vector.memory:
                raise Unsupported("too large for a file")
            FORMATS[options.format](vector, options.output)
        except Unsupported as error:
            left_out[str(error)] += 1
    number = len(written) - left_out.total()
    print(f"{number} written, {left_out.total()} left out")
    for reason, times in left_out.most_common():
        print(f"  {times}: {reason}")
    return FINE if number else UNUSABLE


def _check(options: argparse.Namespace) -> int:
    every = vectors.load_all(options.vectors)
    chosen = vectors.selected(options)
    adapter = Results(options.results, {vector.id for vector in every})
    judged = runner.run(adapter, chosen, adapter.variants)
    results = list(progress(judged, "vectors", len(chosen)))
    start = shlex.join(["dmlax-conformance", "check", "--results", str(options.results)])
    given = [result for result in results if result.verdict != "unsupported"]
    left_out = {"without a result": len(results) - len(given)}
    report.show(given, start, options.max_shown, left_out=left_out)
    if not given:
        return complain("no result", UNUSABLE)
    lacking = report.complain_of_shortfalls(given)
    has_failed = any(result.verdict in runner.FAILED for result in given)
    return FAILED if has_failed else UNUSABLE if lacking else FINE
