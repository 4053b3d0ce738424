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


def option(text: str, metavar: str, **more: Any) -> dict[str, Any]:
    """Return the settings of an option that takes a value."""
    return {"metavar": metavar, "help": text, **more}


FILTERS = ("vectors", "operator", "id", "flag", "without-flag", "valid-only")
OPTIONS: dict[str, dict[str, Any]] = {
    "vectors": option("another folder of vectors", "DIR", type=Path),
    "operator": option("only this operator", "NAME", action="append"),
    "id": option("only this vector", "ID", action="append"),
    "flag": option("only vectors with this flag", "NAME", action="append"),
    "without-flag": option("no vectors with this flag", "NAME", action="append"),
    "valid-only": {"action": "store_true", "help": "only vectors that keep every rule"},
    "variant": option("one of the adapter's, or all; default: those that it runs usually", "NAME"),
    "min-cases": option("fewest values that are right", "N", type=number(int, 0)),
    "min-share": option(
        "fewest of the vectors that the adapter declares that are answered (default: 100)",
        "PERCENT",
        type=number(float, 0, 100),
    ),
    "max-shown": option("failures to print (default: 10)", "N", type=number(int, 0), default=10),
    "time-limit": option("for one answer (default: 30)", "SECONDS", type=number(float, 0.001)),
    "jobs": option(
        "processes that run the adapter; default: 2 if it is concurrent, else 1",
        "N",
        type=number(int, 1),
    ),
    "expected-failures": option(
        'JSON {"id[variant]": "reason"} of failures that are known', "FILE", type=Path
    ),
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
