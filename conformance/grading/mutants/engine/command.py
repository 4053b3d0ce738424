"""The command `mutants`: how many mutants the vectors kill."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dmlax_conformance.exit_codes import FAILED, FINE, USAGE
from dmlax_conformance.format import vectors
from dmlax_conformance.options import add_command
from dmlax_conformance.terminal import Table, complain, progress

from .catalogue import catalogue
from .matrix import ENOUGH, Trial, matrix, run
from .mutant import GROUPS

PROBLEMS = {
    "survivors": "survives",
    "accidents": "killed only by vectors about other clauses",
    "missed": f"fewer than {ENOUGH} vectors kill it",
    "false_alarms": "permitted, but a vector fails it",
    "crashes": "crashes, which kills nothing",
}


def add_commands(commands: Any) -> None:
    """Add the command."""
    text = "try every mutant, and see which the vectors kill"
    parser = add_command(commands, "mutants", _mutants, text, "vectors", "operator", "jobs")
    text = "only this mutant; its killers are shown"
    parser.add_argument("--id", metavar="ID", action="append", help=text)
    parser.add_argument("--sample", metavar="N", type=int, default=1, help="every N-th mutant")
    parser.add_argument("--list", action="store_true", help="print the catalogue and stop")
    parser.add_argument("--matrix", action="store_true", help="print the killers' topics")
    parser.add_argument("--never-alone", action="store_true", help="print these vectors' ids")
    text = "write the whole matrix to this file"
    parser.add_argument("--json", type=Path, metavar="FILE", help=text)


def _mutants(options: argparse.Namespace) -> int:
    names = [
        mutant.id
        for mutant in catalogue().values()
        if (not options.operator or mutant.operator in options.operator)
        and (not options.id or mutant.id in options.id)
    ][:: max(options.sample, 1)]
    if not names:
        return complain("no such mutant", USAGE)
    if options.list:
        for name in names:
            print(f"{name} ({' '.join(catalogue()[name].clause)})")
        return FINE
    tried = run(names, options.vectors, options.jobs or os.cpu_count() or 1)
    trials = list(progress(tried, "mutants", len(names)))
    result = matrix(trials, vectors.load_all(options.vectors))
    _print(result, trials, options)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return FAILED if any(result[key] for key in PROBLEMS) else FINE


def _print(result: Mapping[str, Any], trials: Sequence[Trial], options: argparse.Namespace) -> None:
    known, lines = {trial.id: trial for trial in trials}, []
    for key, title in PROBLEMS.items():
        for name in result[key]:
            trial = known[name.partition(",")[0]]
            where = " ".join([*trial.crashed_on, *trial.killed_by][:3])
            lines.append(f"{title}: {name} ({' '.join(trial.clause)}) {where}".rstrip())
    if options.id:
        lines += [f"{t.id}: killed by {' '.join(t.killed_by) or 'nothing'}" for t in trials]
    if options.matrix:
        for trial in trials:
            counts = (f"{topic}:{count}" for topic, count in trial.topics.items())
            lines.append(" ".join((trial.id, *counts)))
    lines.append(
        f"{len(result['only_killers'])} vectors are the only killer of a mutant,"
        f" {len(result['never_alone'])} are of none; {len(result['idle'])} kill nothing"
    )
    lines += result["never_alone"] if options.never_alone else []
    operators = dict.fromkeys(trial.operator for trial in trials)
    head = ("killed / mutants", *GROUPS, "all", "at one structure", "permitted variants")
    rows = [(name, *_cells([t for t in trials if t.operator == name])) for name in operators]
    table = Table(*head)
    for row in (*rows, ("all", *_cells(trials))):
        table.add_row(*row)
    print(table)
    for line in lines:
        print(line)


def _cells(trials: Sequence[Trial]) -> list[str]:
    """Return killed mutants of all mutants by group, and permitted variants that pass."""
    of_groups = [[bool(t.killed_by) for t in trials if t.group == group] for group in GROUPS]
    all_groups = [bool(t.killed_by) for t in trials if t.must_kill]
    at_structures = [count >= ENOUGH for t in trials for count in t.only_at.values()]
    passed = [not t.killed_by and not t.crashed_on for t in trials if not t.must_kill]
    counts = *of_groups, all_groups, at_structures, passed
    return [f"{sum(count)} / {len(count)}" for count in counts]
