"""The command `dmlax-conformance`.

Exit codes: 0 all as expected; 1 a failure; 2 wrong usage, or an adapter that does not start;
3 malformed vectors, no applicable case, or fewer cases than asked for.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import __version__, adapters
from .errors import Malformed, NotStartable
from .exit_codes import FAILED, FINE, UNUSABLE, USAGE
from .exports import commands as exports
from .format import vectors
from .format.canonical import dumps
from .format.vectors import Vector
from .operators import descs
from .paths import vectors_dir
from .reports import commands, expected
from .scoreboard import commands as scoreboard
from .suite import lint, report, runner, smoke
from .suite.adapter import Adapter
from .suite.bugs import command as bugs
from .suite.generate import driver
from .suite.repeat import start_of_command
from .terminal import Console, track


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except (NotStartable, commands.WrongUsage) as error:
        return _complain(str(error), USAGE)
    except Malformed as error:
        return _complain(f"malformed vectors: {error}", UNUSABLE)
    return code


def _complain(message: str, code: int) -> int:
    print(f"dmlax-conformance: {message}", file=sys.stderr)
    return code


def _selected(options: argparse.Namespace) -> list[Vector]:
    suite = vectors.load_all(options.vectors, options.operator or ())
    wanted = (options.operator, options.id, options.flag)
    return [vector for vector in suite if vectors.matches(vector, *wanted)]


def _run(options: argparse.Namespace) -> int:
    commands.check_outputs(options)
    chosen = _selected(options)
    adapter = adapters.start(options.implementation, options.time_limit)
    try:
        return _run_started(options, adapter, chosen)
    finally:
        adapters.close(adapter)


def _run_started(options: argparse.Namespace, adapter: Adapter, chosen: list[Vector]) -> int:
    variants = runner.variants_of(adapter, options.variant)
    reasons = commands.reasons(options, adapter)
    judged = runner.run(adapter, chosen, variants, options.jobs or _default_jobs(adapter))
    total = len(runner.cases(adapter, chosen, variants))
    shown = track(judged, "vectors", total, transient=True, disable=not sys.stderr.isatty())
    results, complaints = expected.apply(shown, reasons, commands.bad(options.strict))
    console = Console(width=None if sys.stdout.isatty() else 120)
    start = start_of_command(options.implementation, options.vectors, options.time_limit)
    report.print_failures(console, results, start, options.max_shown)
    console.print(report.table(results))
    commands.write(options, results, adapter)
    code = _verdict(runner.Totals.of(results), options)
    return FAILED if commands.complain(complaints) and code == FINE else code


def _default_jobs(adapter: Adapter) -> int:
    return (os.cpu_count() or 1) if getattr(adapter, "concurrent", False) else 1


def _verdict(totals: runner.Totals, options: argparse.Namespace) -> int:
    if totals.applicable < max(options.min_cases, 1):
        needed = max(options.min_cases, 1)
        return _complain(f"{totals.applicable} applicable cases, needed {needed}", UNUSABLE)
    return FAILED if any(totals.counts[name] for name in commands.bad(options.strict)) else FINE


def _smoke(options: argparse.Namespace) -> int:
    adapter = adapters.start(options.implementation, options.time_limit)
    try:
        found = list(smoke.findings(adapter))
    finally:
        adapters.close(adapter)
    for line in smoke.summary(found):
        print(line)
    return FAILED if any(finding.layer for finding in found) else FINE


def _list(options: argparse.Namespace) -> int:
    for vector in _selected(options):
        kind = "valid  " if vector.is_valid else "invalid"
        print(
            f"{kind} {vector.operator}/{vector.topic} {vector.id} {' '.join(sorted(vector.flags))}"
        )
    return FINE


def _lint(options: argparse.Namespace) -> int:
    found = lint.problems(options.vectors)
    for line in found:
        print(line)
    return UNUSABLE if found else FINE


def _generate(options: argparse.Namespace) -> int:
    root = options.vectors or vectors_dir()
    if not options.check:
        return print(f"{driver.write(root)} files written") or FINE
    stale = driver.stale(root)
    for line in stale:
        print(line)
    return UNUSABLE if stale else FINE


def _show(options: argparse.Namespace) -> int:
    for path in vectors.find(options.vectors):
        loaded = vectors.load(path)
        written = vectors.parse(path.read_text(encoding="utf-8"))["vectors"]
        for vector, value in zip(loaded, written, strict=True):
            if vector.id == options.id:
                print(dumps(_as_desc(vector) if options.desc else value), end="")
                return FINE
    return _complain(f"no vector has the id {options.id}", USAGE)


def _as_desc(vector: Vector) -> dict[str, Any]:
    """Return the desc of a vector, and the levels that accept it."""
    desc = vector.desc
    if desc is None:
        call = (vector.attributes, vector.inputs, vector.outputs)
        desc = descs.express(vector.operator, *call)
    levels = descs.feature_levels(vector.operator, desc)
    return {"feature_levels": list(levels), "desc": dict(desc)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dmlax-conformance", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    added = parser.add_subparsers(required=True, metavar="command")
    _add_run(added)
    commands.add_commands(added)
    scoreboard.add_commands(added)
    exports.add_commands(added, _add_filters, _selected)
    bugs.add_commands(added)
    text = "tell an adapter's mistakes from an operator's"
    _add_implementation(_add(added, "smoke", _smoke, text))
    _add_filters(_add(added, "list", _list, "print the ids"))
    _add(added, "lint", _lint, "check the suite as a whole")
    generate = _add(added, "generate", _generate, "write the vectors again")
    generate.add_argument("--check", action="store_true", help="compare bytes instead")
    show = _add(added, "show", _show, "print one vector")
    show.add_argument("id")
    text = "print the call as a desc, and the feature levels that accept it"
    show.add_argument("--desc", action="store_true", help=text)
    return parser


Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add(added: Commands, name: str, function: object, text: str) -> argparse.ArgumentParser:  # type: ignore[valid-type]
    parser: argparse.ArgumentParser = added.add_parser(name, help=text)  # type: ignore[attr-defined]
    parser.set_defaults(command=function)
    parser.add_argument("--vectors", type=Path, help="another folder of vectors")
    return parser


def _add_run(added: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(added, "run", _run, "give the vectors to an implementation")
    _add_implementation(parser)
    variant = "one of the adapter's, or all; default: those that it runs usually"
    parser.add_argument("--variant", help=variant)
    commands.add_run_options(parser)
    parser.add_argument("--min-cases", type=int, default=1, help="fewest applicable cases")
    parser.add_argument("--max-shown", type=int, default=10, help="failures to print")
    parser.add_argument("--jobs", type=int, help="cases at a time; default: the adapter's")
    parser.add_argument("--strict", action="store_true", help="a permitted answer fails too")
    _add_filters(parser)


def _add_implementation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    names = f"{', '.join(adapters.BUILT_IN)}, module.path:ClassName or process:command"
    group.add_argument("--implementation", help=names)
    text = "a program that speaks JSON lines, with its arguments"
    group.add_argument("--command", dest="implementation", type=_process_name, help=text)
    limit = f"seconds for one answer of a program (default: {adapters.TIME_LIMIT:g})"
    parser.add_argument("--time-limit", type=float, help=limit)


def _process_name(command: str) -> str:
    return f"{adapters.PROCESS}:{command}"


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operator", action="append", help="only this operator")
    parser.add_argument("--id", action="append", help="only this vector")
    parser.add_argument("--flag", action="append", help="only vectors with this flag")
