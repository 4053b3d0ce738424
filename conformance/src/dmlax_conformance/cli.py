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

from rich.console import Console
from rich.progress import track

from . import __version__, adapters, descs, lint, report, runner, vectors
from .adapters.base import Adapter
from .canonical import dumps
from .errors import Malformed, NotStartable
from .generate import driver
from .locations import vectors_dir
from .vectors import Vector

FINE, FAILED, USAGE, UNUSABLE = range(4)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except NotStartable as error:
        return _complain(str(error), USAGE)
    except Malformed as error:
        return _complain(f"malformed vectors: {error}", UNUSABLE)
    return code


def _complain(message: str, code: int) -> int:
    print(f"dmlax-conformance: {message}", file=sys.stderr)
    return code


def _selected(options: argparse.Namespace) -> list[Vector]:
    suite = vectors.load_all(options.vectors, options.operator or ())
    return [vector for vector in suite if _matches(vector, options)]


def _matches(vector: Vector, options: argparse.Namespace) -> bool:
    return (
        (not options.operator or vector.operator in options.operator)
        and (not options.id or vector.id in options.id)
        and (not options.flag or not vector.flags.isdisjoint(options.flag))
    )


def _run(options: argparse.Namespace) -> int:
    chosen = _selected(options)
    adapter = adapters.start(options.implementation)
    variants = adapter.variants if options.variant == "all" else (options.variant,)
    if not set(variants) <= set(adapter.variants):
        return _complain(f"{adapter.name} has no variant {options.variant}", USAGE)
    judged = runner.run(adapter, chosen, variants, options.jobs or _default_jobs(adapter))
    total = len(runner.cases(adapter, chosen, variants))
    results = list(track(judged, "vectors", total, transient=True, disable=not sys.stderr.isatty()))
    console = Console(width=None if sys.stdout.isatty() else 120)
    report.print_failures(console, results, options.implementation, options.max_shown)
    console.print(report.table(results))
    if options.report:
        report.write_lines(options.report, results, options.implementation)
    return _verdict(runner.Totals.of(results), options)


def _default_jobs(adapter: Adapter) -> int:
    return (os.cpu_count() or 1) if getattr(adapter, "concurrent", False) else 1


def _verdict(totals: runner.Totals, options: argparse.Namespace) -> int:
    if totals.applicable < max(options.min_cases, 1):
        needed = max(options.min_cases, 1)
        return _complain(f"{totals.applicable} applicable cases, needed {needed}", UNUSABLE)
    bad = totals.counts["fail"] + totals.counts["error"]
    bad += totals.counts["permitted"] if options.strict else 0
    return FAILED if bad else FINE


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
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_run(commands)
    _add_filters(_add(commands, "list", _list, "print the ids"))
    _add(commands, "lint", _lint, "check the suite as a whole")
    generate = _add(commands, "generate", _generate, "write the vectors again")
    generate.add_argument("--check", action="store_true", help="compare bytes instead")
    show = _add(commands, "show", _show, "print one vector")
    show.add_argument("id")
    text = "print the call as a desc, and the feature levels that accept it"
    show.add_argument("--desc", action="store_true", help=text)
    return parser


Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add(commands: Commands, name: str, function: object, text: str) -> argparse.ArgumentParser:  # type: ignore[valid-type]
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)  # type: ignore[attr-defined]
    parser.set_defaults(command=function)
    parser.add_argument("--vectors", type=Path, help="another folder of vectors")
    return parser


def _add_run(commands: Commands) -> None:  # type: ignore[valid-type]
    parser = _add(commands, "run", _run, "give the vectors to an implementation")
    names = f"{', '.join(adapters.BUILT_IN)}, or module.path:ClassName"
    parser.add_argument("--implementation", required=True, help=names)
    parser.add_argument("--variant", default="all", help="one of the adapter's, or all (default)")
    parser.add_argument("--report", type=Path, help="write JSON lines to this file")
    parser.add_argument("--min-cases", type=int, default=1, help="fewest applicable cases")
    parser.add_argument("--max-shown", type=int, default=10, help="failures to print")
    parser.add_argument("--jobs", type=int, help="cases at a time; default: the adapter's")
    parser.add_argument("--strict", action="store_true", help="a permitted answer fails too")
    _add_filters(parser)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operator", action="append", help="only this operator")
    parser.add_argument("--id", action="append", help="only this vector")
    parser.add_argument("--flag", action="append", help="only vectors with this flag")
