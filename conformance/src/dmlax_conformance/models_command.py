"""The command `models`, which runs whole models."""

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from .adapters.models import BUILT_IN
from .adapters.models.worker import TIME_LIMIT, Worker
from .errors import WrongUsage
from .exit_codes import FAILED, FINE, UNUSABLE
from .format.vectors import hint
from .models import golden
from .models.adapter import ARITHMETICS
from .models.golden import Golden
from .models.judge import Verdict
from .options import add_command, add_options, number
from .terminal import Table, complain, progress

COLUMNS = ("model", "arithmetic", "variant", "verdict", "tensors", "seconds")


def add_commands(commands: Any) -> None:
    """Add the command."""
    parser = add_command(commands, "models", _run, "give whole models to an implementation")
    names = f"{', '.join(BUILT_IN)}, or module.path:ClassName"
    parser.add_argument("--implementation", required=True, help=names)
    add_options(parser.add_argument, ("variant",))
    parser.add_argument("--model", action="append", metavar="NAME", help="only this model")
    parser.add_argument("--arithmetic", action="append", choices=ARITHMETICS, help="only this one")
    parser.add_argument("--models", type=Path, metavar="DIR", help="another folder of models")
    text = "fewest models of which every value is right (default: 1)"
    parser.add_argument("--min-models", type=number(int, 0), default=1, metavar="N", help=text)
    text = f"for one model (default: {TIME_LIMIT:g})"
    parser.add_argument("--time-limit", type=number(float, 0.001), metavar="SECONDS", help=text)


def _run(options: argparse.Namespace) -> int:
    chosen = _chosen(options)
    if not chosen:
        return complain(f"no model is in {options.models}", UNUSABLE)
    with closing(Worker(options.implementation, options.time_limit)) as worker:
        questions = worker.questions(chosen, options.arithmetic, options.variant)
        answers = (worker.ask(question) for question in questions)
        verdicts = list(progress(answers, "models", len(questions)))
    _show(verdicts, chosen)
    if any(each.verdict in ("fail", "error") for each in verdicts):
        return FAILED
    right, least = {each.model for each in verdicts if each.verdict == "exact"}, options.min_models
    if len(right) < max(least, 1):
        return complain(f"{len(right)} models, needed {max(least, 1)}", UNUSABLE)
    return FINE


def _chosen(options: argparse.Namespace) -> list[Golden]:
    found = [golden.load(path) for path in golden.paths(options.models)]
    known = [each.name for each in found]
    wanted = options.model or known
    for name in wanted:
        if name not in known:
            raise WrongUsage(f"--model {name}: no model has this name{hint(name, known)}")
    return [each for each in found if each.name in wanted]


def _show(verdicts: Sequence[Verdict], models: Sequence[Golden]) -> None:
    shown = Table(*COLUMNS)
    written = {each.name: len(each.graph.written()) for each in models}
    for each in verdicts:
        names = each.model, each.arithmetic, each.variant, each.verdict
        count = f"{each.judged} of {written[each.model]}" if each.judged else ""
        shown.add_row(*names, count, f"{each.seconds:.1f}")
    print(shown)
    for each in verdicts:
        for line in each.details:
            print(f"{each.verdict} {each.key}: {line}")
    counts = Counter(each.verdict for each in verdicts)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
