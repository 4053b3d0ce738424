"""Rows as a table for people and as JSON for results/."""

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import jax
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dmlax._cpu import library
from dmlax._cpu.allocator import VARIABLE
from tools.benchmarks import amx, stored

_PACKAGES = ("dmlax", "jax", "jaxlib", "libtpu", "numpy", "onnxruntime", "torch")
_FIGURE = re.compile(r"dmlax .*|(call )?us|(memory )?ratio|speed-up|.*over .*")
Row = dict[str, Any]
Option = tuple[str, Mapping[str, Any]]  # an argument of `argparse`: its flag and settings
T = TypeVar("T")

ONLY: Option = ("--only", {"default": "", "metavar": "REGEX", "help": "only names that match"})
BATCH: Option = ("--batch", {"type": int, "nargs": "+", "default": [1, 8], "help": "batch sizes"})
REPEATS: Option = ("--repeats", {"type": int, "default": 20, "help": "turns (default 20)"})


def option(flag: str | Option, **settings: Any) -> Option:
    """Describe an argument in `argparse`'s words, or change the settings of an option."""
    flag, others = (flag, {}) if isinstance(flag, str) else flag
    return flag, {**others, **settings}


@dataclass
class Report:
    """A table of results.

    Attributes:
      facts: measurements beside the rows.
      measured_on: the machine and versions, if the rows come from another process.
    """

    name: str
    rows: list[Row] = field(default_factory=list)
    facts: Row = field(default_factory=dict)
    measured_on: Row | None = None

    def add_beside(self, others: Sequence[Row], what: str) -> None:
        """Put the figures of another run beside those of each row: columns keep their order."""
        for row, other in zip(self.rows, others, strict=True):
            for name in [*row]:
                row[name] = row.pop(name)
                if _FIGURE.fullmatch(name):
                    row[f"{name} {what}"] = other[name]

    def machine(self) -> Row:
        """The machine and versions of the rows."""
        return self.measured_on or environment()

    def show(self, console: Console) -> None:
        """Print the rows, then their means."""
        console.print(_table(self.name, self.rows))
        if means := stored.summary(self.rows):
            console.print(_table("", means))
        if self.facts:
            console.print(", ".join(f"{name} {_cell(value)}" for name, value in self.facts.items()))

    def as_json(self) -> Row:
        """The rows, and the facts if there are any."""
        return {"rows": self.rows} | ({"facts": self.facts} if self.facts else {})


def tracked(items: Iterable[T], title: str) -> Iterable[T]:
    """The items, with a progress bar on a terminal."""
    return track(list(items), title, console=Console(stderr=True), transient=True)


def write(path: Path, reports: Sequence[Report]) -> None:
    """Write the reports with the versions and the machine that they were measured on."""
    contents = {"environment": reports[0].machine()} | {x.name: x.as_json() for x in reports}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stored.as_text(_rounded(contents)), encoding="utf-8")


def print_lines(rows: Iterator[Row]) -> None:
    """Print a line of JSON for every row, at once."""
    for row in rows:
        print(json.dumps(row), flush=True)


def read_lines(file: Path) -> tuple[Row, list[Row]]:
    """Read the output of `print_lines`: the facts of the first line, and the other rows."""
    texts = file.read_text(encoding="utf-8").splitlines()
    facts, *rows = (json.loads(text) for text in texts if text.startswith("{"))
    return facts, rows


@cache
def environment() -> Row:
    """The facts that the numbers depend on."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        **_driver(),
        **_cpu(),
        "python": platform.python_version(),
    } | {package: _version(package) for package in _PACKAGES if find_spec(package)}


def _cpu() -> Row:
    """The kernels' instruction set and the threads, if JAX runs on a CPU."""
    if jax.default_backend() != "cpu":
        return {}
    return {
        "instruction set": library.instruction_set(),
        "peers have AMX": amx.is_granted(),
        "threads": len(os.sched_getaffinity(0)),
        "freed memory is kept": os.environ.get(VARIABLE) == "1",
    }


def _driver() -> dict[str, str]:
    """The version of NVIDIA's driver, if there is one."""
    match = re.search(r"\d+\.\d+\.\d+", text_of("/proc/driver/nvidia/version"))
    return {"driver": match[0]} if match else {}


def _version(package: str) -> str:
    """Version of a distribution, or of sources on the path."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(import_module(package).__version__)


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.*?)\s*$", text_of("/proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.processor()


def text_of(path: str) -> str:
    """The text of a file of the system, empty if there is no such file."""
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def _table(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for name, value in rows[0].items():
        table.add_column(name, no_wrap=True, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_rounded(member) for member in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
