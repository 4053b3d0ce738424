"""The commands of whoever edits the vectors: `python -m grading COMMAND`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dmlax_conformance.errors import Malformed, WrongUsage
from dmlax_conformance.exit_codes import FAILED, FINE, UNUSABLE, USAGE
from dmlax_conformance.format import canonical
from dmlax_conformance.options import add_command
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.terminal import complain

from . import add, search, verify
from .mutants import trials


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    added = parser.add_subparsers(required=True, metavar="command")
    text = "recompute every expectation, and check form, ids, clauses, coverage and digest"
    add_command(added, "verify", _verify, text, "vectors")
    text = "add vectors: a list of calls as JSON in, vectors with expectations out"
    adding = add_command(added, "add", _add, text, "vectors")
    adding.add_argument("calls", type=Path, metavar="CALLS.json")
    adding.add_argument("--dry-run", action="store_true", help="write nothing")
    text = "search for a call that covers an equivalence class, and print it as `add` takes it"
    searching = add_command(added, "search", _search, text, "vectors")
    searching.add_argument("operator", choices=list(OPERATORS), metavar="OPERATOR")
    searching.add_argument("equivalence_class", metavar="CLASS")
    searching.add_argument("--seed", type=int, default=1, help="of the draws (default: 1)")
    searching.add_argument("--tries", type=int, default=2000, help="at most (default: 2000)")
    text = "try every mutant, and see which the vectors kill"
    trying = add_command(added, "mutants", trials.run, text, "vectors", "operator", "jobs")
    trying.add_argument("--id", metavar="ID", action="append", help="only this mutant")
    options = parser.parse_args(arguments)
    try:
        code: int = options.command(options)
    except Malformed as error:
        return complain(str(error), UNUSABLE)
    except (OSError, WrongUsage) as error:
        return complain(str(error), USAGE)
    return code


def _verify(options: argparse.Namespace) -> int:
    problems = verify.problems(options.vectors)
    for line in problems:
        complain(line, UNUSABLE)
    return UNUSABLE if problems else FINE


def _add(options: argparse.Namespace) -> int:
    added = add.add(options.calls, options.vectors)
    if not options.dry_run:
        add.write(added.texts)
    for vector in added.vectors:
        expect = "refused" if not vector.is_valid else f"valid, {' '.join(sorted(vector.flags))}"
        print(f"{vector.id}: {expect}; {' '.join(vector.clause)}")
    for line in add.gains(added):
        print(line)
    return FINE


def _search(options: argparse.Namespace) -> int:
    name, tries = options.equivalence_class, options.tries
    found = search.search(options.operator, name, options.seed, tries, options.vectors)
    if found is None:
        return complain(f"none of {tries} calls has {name!r}", FAILED)
    print(canonical.dumps([search.as_call(found, name)], canonical.VECTORS), end="")
    return FINE


if __name__ == "__main__":
    sys.exit(main())
