"""The command `mutate`: how many planted bugs the vectors kill."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from ...exit_codes import FAILED, FINE, USAGE
from ...format import vectors
from ...options import add_command
from ...terminal import Console, Table, complain, console, progress
from . import matrix
from .catalogue import GROUPS, catalogue
from .matrix import Matrix, Trial
from .structured import ENOUGH


def add_commands(commands: Any) -> None:
    """Add the command."""
    text = "plant bugs, and see which the vectors kill"
    parser = add_command(commands, "mutate", _mutate, text, "vectors", "operator", "jobs")
    text = "only this bug; its killers are shown"
    parser.add_argument("--bug", "--mutant", action="append", help=text)
    parser.add_argument("--list", action="store_true", help="print the catalogue and stop")
    parser.add_argument("--matrix", action="store_true", help="print the killers' topics of each")
    parser.add_argument("--never-alone", action="store_true", help="print these vectors' ids")
    text = "write the whole matrix to this file"
    parser.add_argument("--json", type=Path, metavar="FILE", help=text)


def _mutate(options: argparse.Namespace) -> int:
    names = _selected(options)
    if not names:
        return complain("no such bug", USAGE)
    if options.list:
        console().print(_catalogue(names))
        return FINE
    tried = matrix.run(names, options.vectors, options.jobs or os.cpu_count() or 1)
    shown = progress(tried, "bugs", len(names))
    result = Matrix.of(list(shown), vectors.load_all(options.vectors))
    _print(console(), result, options)
    if options.json:
        with options.json.open("w", encoding="utf-8") as file:
            json.dump(matrix.as_json(result), file, indent=1)
    return FINE if result.is_fine else FAILED


def _selected(options: argparse.Namespace) -> list[str]:
    return [
        each.id
        for each in catalogue().values()
        if (not options.operator or each.operator in options.operator)
        and (not options.bug or each.id in options.bug)
    ]


def _catalogue(names: list[str]) -> Table:
    shown = Table("bug", "clause", "what is wrong", box=None, pad_edge=False)
    for name in names:
        each = catalogue()[name]
        shown.add_row(name, " ".join(each.clause), each.about)
    return shown


def _print(shown: Console, result: Matrix, options: argparse.Namespace) -> None:
    shown.print(summary(result))
    for title, trials in {
        "survives": result.survivors,
        "killed only by vectors about other clauses": result.accidents,
        "permitted, but a vector fails it": result.alarms,
        "crashes, which kills nothing": result.crashes,
    }.items():
        for trial in trials:
            _print_one(shown, title, trial)
    for trial, at in result.missed:
        killers = " ".join(trial.only_at[at]) or "nothing"
        line = f"too few kill it, only at: {at}: {trial.bug}: {killers}"
        shown.print(line, markup=False, highlight=False, soft_wrap=True)
    if options.bug:
        for trial in result.trials:
            shown.print(f"{trial.bug}: killed by {' '.join(trial.fail) or 'nothing'}")
    if options.matrix:
        shown.print(_matrix(result))
    few = len(result.cover())
    shown.print(
        f"{len(result.suite)} vectors: {len(result.only_killers)} are the only killer of some bug,"
        f" {len(result.never_alone)} of none; {len(result.idle)} kill nothing;"
        f" {few} would do to kill all that is killed",
    )
    if options.never_alone:
        for name in result.never_alone:
            shown.print(name, markup=False, highlight=False)


def _print_one(shown: Console, title: str, trial: Trial) -> None:
    bug = catalogue()[trial.bug]
    where = " ".join((trial.error or trial.fail)[:3])
    line = f"{title}: {bug.id} ({' '.join(bug.clause)}) {bug.about} {where}"
    shown.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)


def summary(result: Matrix) -> Table:
    """Return killed bugs of all bugs, by operator and group, and permitted variants that pass."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("killed / planted", no_wrap=True)
    for name in (*GROUPS, "all", "at one structure", "permitted variants"):
        shown.add_column(name, justify="right")
    operators = dict.fromkeys(catalogue()[trial.bug].operator for trial in result.trials)
    for operator in operators:
        own = [t for t in result.trials if catalogue()[t.bug].operator == operator]
        shown.add_row(operator, *_cells(own))
    shown.add_row("all", *_cells(result.trials), style="bold")
    return shown


def _cells(trials: Any) -> list[str]:
    cells = []
    for group in (*GROUPS, None):
        own = [t for t in trials if _is_planted(t) and group in (None, catalogue()[t.bug].group)]
        cells.append(f"{sum(bool(t.fail) for t in own)} / {len(own)}")
    at_structures = [len(found) >= ENOUGH for t in trials for found in t.only_at.values()]
    cells.append(f"{sum(at_structures)} / {len(at_structures)}")
    allowed = [t for t in trials if not _is_planted(t)]
    return [*cells, f"{sum(not t.fail and not t.error for t in allowed)} / {len(allowed)}"]


def _is_planted(trial: Trial) -> bool:
    return catalogue()[trial.bug].must_kill


def _matrix(result: Matrix) -> Table:
    shown = Table("bug", "killers by topic", box=None, pad_edge=False)
    for trial in result.planted:
        counts = result.topics(trial).items()
        shown.add_row(trial.bug, " ".join(f"{topic}:{count}" for topic, count in counts))
    return shown
