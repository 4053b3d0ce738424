"""The options that several commands have, and adding a command."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any


def number(kind: type[float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a function that reads a number between these ends."""
    what = "a whole number" if kind is int else "a number"
    ends = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most or math.isinf(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} {ends}")
        return value

    return read


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
    "min-cases": {"metavar": "N", "type": number(int, 0), "help": "fewest values that are right"},
    "min-share": {
        "metavar": "PERCENT",
        "type": number(float, 0, 100),
        "help": "fewest of the vectors that the adapter declares that are answered (default: 100)",
    },
    "max-shown": {
        "metavar": "N",
        "type": number(int, 0),
        "default": 10,
        "help": "failures to print (default: 10)",
    },
    "time-limit": {
        "metavar": "SECONDS",
        "type": number(float, 0.001),
        "help": "for one answer (default: 30)",
    },
    "jobs": {
        "metavar": "N",
        "type": number(int, 1),
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
