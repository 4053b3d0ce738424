"""The commands of whoever edits the vectors: `python -m grading COMMAND`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dmlax_conformance.errors import Malformed, WrongUsage
from dmlax_conformance.exit_codes import FAILED, FINE, UNUSABLE, USAGE
from dmlax_conformance.format import canonical, vectors
from dmlax_conformance.options import add_command
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.terminal import Table, complain

from . import add, search, verify
from .coverage import registry
from .mutants.engine import command as mutants


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    added = parser.add_subparsers(required=True, metavar="command")
    text = "recompute every expectation, and check form, ids, clauses, coverage and digest"
    add_command(added, "verify", _verify, text, "vectors")
    text = "count what the vectors cover, by operator"
    add_command(added, "coverage", _coverage, text, "vectors", "operator")
    text = "add vectors: a list of calls as JSON in, vectors with expectations out"
    adding = add_command(added, "add", _add, text, "vectors")
    adding.add_argument("calls", type=Path, metavar="CALLS.json")
    text = "also say which mutants the new vectors kill, which takes minutes"
    adding.add_argument("--mutants", action="store_true", help=text)
    adding.add_argument("--dry-run", action="store_true", help="write nothing")
    text = "search for a call that covers an equivalence class, and print it as `add` takes it"
    searching = add_command(added, "search", _search, text, "vectors")
    searching.add_argument("operator", choices=list(OPERATORS), metavar="OPERATOR")
    searching.add_argument("equivalence_class", metavar="CLASS")
    searching.add_argument("structure", nargs="?", metavar="STRUCTURE")
    searching.add_argument("--seed", type=int, default=1, help="of the draws (default: 1)")
    searching.add_argument("--tries", type=int, default=2000, help="at most (default: 2000)")
    mutants.add_commands(added)
    options = parser.parse_args(arguments)
    try:
        code: int = options.command(options)
    except Malformed as error:
        return complain(str(error), UNUSABLE)
    except (OSError, WrongUsage) as error:
        return complain(str(error), USAGE)
    return code


def _verify(options: argparse.Namespace) -> int:
    return _complained(verify.problems(options.vectors))


def _add(options: argparse.Namespace) -> int:
    added = add.add(options.calls, options.vectors)
    if not options.dry_run:
        add.write(added.texts)
    for vector in added.vectors:
        expect = "refused" if not vector.is_valid else f"valid, {' '.join(sorted(vector.flags))}"
        print(f"{vector.id}: {expect}; {' '.join(vector.clause)}")
    for line in add.gains(added, options.mutants):
        print(line)
    return FINE


def _search(options: argparse.Namespace) -> int:
    name, at = options.equivalence_class, options.structure
    given = (options.seed, options.tries, options.vectors)
    found = search.search(options.operator, name, at, *given)
    if found is None:
        return complain(f"none of {options.tries} calls has {name!r} at {at!r}", FAILED)
    comment = f"{name} at {at}" if at else name
    print(canonical.dumps([search.as_call(found, comment)], canonical.VECTORS), end="")
    return FINE


def _coverage(options: argparse.Namespace) -> int:
    shown, problems = Table("operator", *registry.HEAD), list[str]()
    for operator in options.operator or OPERATORS:
        suite = vectors.load_all(options.vectors, (operator,))
        shown.add_row(operator, *registry.row(operator, suite))
        problems += registry.problems(operator, suite)
    print(shown)
    return _complained(problems)


def _complained(problems: Sequence[str]) -> int:
    for line in problems:
        complain(line, UNUSABLE)
    return UNUSABLE if problems else FINE


if __name__ == "__main__":
    sys.exit(main())
