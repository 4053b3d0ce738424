"""The options that several commands have, and adding a command."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _positive(text: str) -> int:
    """Return a number of one or more."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return int(text)


FILTERS = ("vectors", "operator", "id", "flag", "without-flag", "valid-only")
OPTIONS: dict[str, dict[str, Any]] = {
    "vectors": {"metavar": "DIR", "type": Path, "help": "another folder of vectors"},
    "operator": {"metavar": "NAME", "action": "append", "help": "only this operator"},
    "id": {"metavar": "ID", "action": "append", "help": "only this vector"},
    "flag": {"metavar": "NAME", "action": "append", "help": "only vectors with this flag"},
    "without-flag": {"metavar": "NAME", "action": "append", "help": "no vectors with this flag"},
    "valid-only": {"action": "store_true", "help": "only vectors that keep every rule"},
    "variant": {
        "metavar": "NAME",
        "help": "one of the adapter's, or all; default: those that it runs usually",
    },
    "min-cases": {"metavar": "N", "type": int, "help": "fewest values that are right"},
    "min-share": {
        "metavar": "PERCENT",
        "type": float,
        "help": "fewest of the vectors that the adapter declares that are answered (default: 100)",
    },
    "max-shown": {"metavar": "N", "type": int, "default": 10, "help": "failures to print"},
    "time-limit": {"metavar": "SECONDS", "type": float, "help": "for one answer (default: 30)"},
    "jobs": {
        "metavar": "N",
        "type": _positive,
        "help": "processes that run the adapter; default: 2 if it is concurrent, else 1",
    },
    "expected-failures": {
        "metavar": "FILE",
        "type": Path,
        "help": 'JSON {"id[variant]": "reason"} of failures that are known',
    },
}

Add = Callable[..., Any]


def add_options(add: Add, names: tuple[str, ...], prefix: str = "--") -> None:
    """Add options by the function of a parser, or of pytest, that adds one."""
    for name in names:
        add(f"{prefix}{name}", **OPTIONS[name])


def add_command(
    commands: Any, name: str, function: Callable[..., int], text: str, *names: str
) -> argparse.ArgumentParser:
    """Add a command with some of the options, and return its parser for the others."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    parser.set_defaults(command=function)
    add_options(parser.add_argument, names)
    return parser
