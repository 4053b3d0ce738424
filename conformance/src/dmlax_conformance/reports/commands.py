"""The commands and options about reports."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import WrongUsage
from ..exit_codes import FAILED, FINE, UNUSABLE
from ..format import vectors
from ..options import add_command
from ..suite.adapter import Adapter
from ..suite.repeat import start_of_command
from ..suite.runner import Result
from ..terminal import complain
from . import compare, html, junit, lines, reading

OUTPUTS = {
    "report": "write JSON lines to this file",
    "junit": "write JUnit XML to this file",
    "html": "write one HTML page to this file",
}


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run` that are about reports."""
    for name, text in OUTPUTS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=text)


def add_commands(commands: Any) -> None:
    """Add the commands `html` and `compare`."""
    page = add_command(commands, "html", _html, "show reports as one HTML page", "vectors")
    page.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    page.add_argument("--output", required=True, type=Path, metavar="FILE")
    change = add_command(commands, "compare", _compare, "show what changed between two reports")
    change.add_argument("old", type=Path)
    change.add_argument("new", type=Path)
    change.add_argument("--strict", action="store_true", help="no longer exact is worse too")


def check_outputs(options: argparse.Namespace) -> None:
    """Raise `WrongUsage` now rather than lose a long run at its end."""
    for name in OUTPUTS:
        _check_output(getattr(options, name))


def bad(strict: bool) -> frozenset[str]:
    """Return the verdicts that fail a run."""
    return compare.FAILED | {"permitted"} if strict else compare.FAILED


def write(options: argparse.Namespace, results: Sequence[Result], adapter: Adapter) -> None:
    """Write the reports that the options ask for."""
    if not (options.report or options.junit or options.html):
        return
    start = start_of_command(options.implementation, options.vectors, options.time_limit)
    runs_on: dict[str, str] = getattr(adapter, "runs_on", dict)()
    report = lines.of_run(results, options.implementation, start, runs_on)
    if options.report:
        lines.write(options.report, report)
    if options.junit:
        junit.write(options.junit, report, bad(options.strict))
    if options.html:
        name = str(report.header["implementation"])
        html.write(options.html, {name: report}, [result.vector for result in results])


def _check_output(path: Path | None) -> None:
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise WrongUsage(f"{path} cannot be written: no such folder, or a folder itself")


def _html(options: argparse.Namespace) -> int:
    _check_output(options.output)
    reports = [reading.read(path) for path in options.reports]
    names = html.names(options.reports, reports)
    if len(set(names)) < len(names):
        raise WrongUsage("two reports of one implementation need files of different names")
    suite = vectors.load_all(options.vectors)
    html.write(options.output, dict(zip(names, reports, strict=True)), suite)
    return FINE


def _compare(options: argparse.Namespace) -> int:
    old, new = reading.read(options.old), reading.read(options.new)
    found = compare.changes(old, new)
    for line in compare.lines(old, new, found):
        print(line)
    if not new.footer["applicable"]:
        return complain(f"{options.new}: no applicable case", UNUSABLE)
    return FAILED if compare.worse(found, options.strict) else FINE
