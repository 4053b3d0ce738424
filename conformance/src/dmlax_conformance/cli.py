"""The command `dmlax-conformance`.

Exit codes: 0 all as expected; 1 a failure; 2 wrong usage, or an adapter that does not start;
3 malformed vectors, no applicable case, or fewer answers than asked for.
"""

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import __version__, adapters, models_command
from .errors import Malformed, NotStartable, Unsupported, WrongUsage
from .exit_codes import FAILED, FINE, UNUSABLE, USAGE
from .format import vectors
from .format.canonical import dumps
from .format.vectors import Vector
from .options import FILTERS, add_command, add_options
from .oracle import descriptors as descs
from .reports import commands as reports
from .reports import expected
from .runner import report, smoke
from .runner import run as runner
from .runner.program import Program
from .runner.repeat import start_of_command
from .runner.run import Result
from .terminal import complain, progress, telling

JOBS = 2  # processes of an adapter that several of them may run
UNDECLARED = "of operators that are not declared"
UNANSWERED = "of operators that it never answers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        sys.stdout.flush()
    except (NotStartable, WrongUsage) as error:
        return complain(str(error), USAGE)
    except Malformed as error:
        return complain(f"malformed {error.what}: {error}", UNUSABLE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return complain("interrupted", FAILED)
    return code


def _run(options: argparse.Namespace) -> int:
    reports.check_outputs(options)
    with telling(lambda: "reading the vectors"):
        found = vectors.divided(options)
    with adapters.started(options.implementation, options.time_limit) as adapter:
        code = _run_started(options, adapter, found)
    return FAILED if adapter.unasked else code


def _run_started(
    options: argparse.Namespace, adapter: Program, found: list[tuple[Vector, str]]
) -> int:
    declared = adapter.operators
    if declared is not None:
        for name in sorted({*declared} - vectors.SIGNATURES.keys()):
            near = vectors.hint(name, vectors.SIGNATURES)
            complain(f"{adapter.name} declares {name}, which no vector is about{near}", FINE)
        found = [(v, why if v.operator in declared else UNDECLARED) for v, why in found]
    left_out = Counter(why for _, why in found if why)
    chosen = [vector for vector, why in found if not why]
    variants = runner.variants_of(adapter, options.variant)
    reasons = expected.reasons(options, adapter)
    jobs = options.jobs or (JOBS if adapter.concurrent else 1)
    judged = runner.run(adapter, chosen, variants, jobs)
    total = len(runner.cases(adapter, chosen, variants))
    shown = _until_interrupted(progress(judged, "vectors", total))
    results, complaints = expected.apply(shown, reasons, reports.bad(options.strict))
    if len(results) < total:
        complaints.append(f"interrupted: {len(results)} of {total} ran")
    answered = {each.vector.operator for each in results if each.verdict != "unsupported"}
    if declared is None and answered:  # what it has, it does not say
        left_out[UNANSWERED] = sum(vector.operator not in answered for vector in chosen)
        results = [result for result in results if result.vector.operator in answered]
    start = start_of_command(options.implementation, options.vectors, options.time_limit)
    bad = reports.bad(options.strict)
    report.show(results, start, options.max_shown, adapter, left_out, bad)
    reports.write(options, results, adapter)
    for line in complaints:
        complain(line, FAILED)
    has_failed = any(result.verdict in bad for result in results)
    lacking = report.complain_of_shortfalls(results, options.min_cases, options.min_share, adapter)
    return FAILED if complaints or has_failed else UNUSABLE if lacking else FINE


def _until_interrupted(results: Iterable[Result]) -> Iterator[Result]:
    """Yield results until the user has enough, so that those that are there are kept."""
    with contextlib.suppress(KeyboardInterrupt):
        yield from results


def _smoke(options: argparse.Namespace) -> int:
    with telling(lambda: "reading the vectors"):
        suite = vectors.load_all(options.vectors)
    with adapters.started(options.implementation, options.time_limit) as adapter:
        findings = []
        for finding in smoke.findings(adapter, suite, options.valid_only):
            findings.append(finding)
            print("\n".join(finding.lines()), flush=True)
    print(smoke.summary(findings))
    is_at_fault = adapter.unasked or any(finding.layer for finding in findings)
    return FAILED if is_at_fault else FINE


def _list(options: argparse.Namespace) -> int:
    for vector in vectors.selected(options):
        kind, flags = "valid  " if vector.is_valid else "invalid", " ".join(sorted(vector.flags))
        print(f"{kind} {vector.operator}/{vector.topic} {vector.id} {flags}")
    return FINE


def _show(options: argparse.Namespace) -> int:
    for path in vectors.find(options.vectors):
        loaded = vectors.load(path)
        written = vectors.completed(vectors.parse(path.read_text(encoding="utf-8"))["vectors"])
        for vector, value in zip(loaded, written, strict=True):
            if vector.id != options.id:
                continue
            try:
                print(dumps(_as_desc(vector) if options.desc else value), end="")
            except Unsupported as reason:
                return complain(f"{vector.id}: {reason}", USAGE)
            return FINE
    known = (vector.id for vector in vectors.load_all(options.vectors))
    return complain(f"no vector has the id {options.id}{vectors.hint(options.id, known)}", USAGE)


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
    text = "give the vectors to an implementation"
    names = ("variant", "expected-failures", "min-cases", "min-share", "max-shown", "jobs")
    run = add_command(added, "run", _run, text, *FILTERS, *names)
    _add_implementation(run)
    reports.add_run_options(run)
    run.add_argument("--strict", action="store_true", help="a permitted answer fails too")
    for module in (reports, models_command):
        module.add_commands(added)
    text = "tell an adapter's mistakes from an operator's"
    _add_implementation(add_command(added, "smoke", _smoke, text, "vectors", "valid-only"))
    add_command(added, "list", _list, "print the ids", *FILTERS)
    show = add_command(added, "show", _show, "print one vector", "vectors")
    show.add_argument("id")
    text = "print the call as a desc, and the feature levels that accept it"
    show.add_argument("--desc", action="store_true", help=text)
    return parser


def _add_implementation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    names = f"{', '.join(adapters.BUILT_IN)}, module.path:ClassName or process:command"
    group.add_argument("--implementation", help=names)
    text = "a program that speaks JSON lines, with its arguments"
    group.add_argument(
        "--command", dest="implementation", type=f"{adapters.PROCESS}:{{}}".format, help=text
    )
    add_options(parser.add_argument, ("time-limit",))
