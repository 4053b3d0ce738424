"""Rows as a table for people and as JSON for results/."""

import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeVar

import jax
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import amx, stored
from dmlax._cpu import library

_RESULTS = Path(__file__).with_name("results")
Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """A number that a benchmark sets out to reach."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """True if it is reached."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def row(self) -> Row:
        """The target as a row."""
        wanted = f"{'>=' if self.at_least else '<='} {self.limit:g}"
        verdict = "met" if self.met else "missed"
        return {"target": self.what, "value": self.value, "wanted": wanted, "verdict": verdict}


@dataclass
class Report:
    """The results of one benchmark."""

    name: str
    rows: list[Row] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    facts: Row = field(default_factory=dict)  # what was measured beside the rows

    def column(self, name: str, **where: object) -> list[float]:
        """One column of the rows where the other columns have these values."""
        return [row[name] for row in self.rows if where.items() <= row.items()]

    def show(self, console: Console) -> None:
        """Print the rows, then the targets."""
        console.print(_table(self.name, self.rows))
        if self.targets:
            console.print(_table("", [target.row() for target in self.targets]))
        if self.facts:
            console.print(", ".join(f"{name} {_cell(value)}" for name, value in self.facts.items()))

    def as_json(self) -> dict[str, Any]:
        """Rows and targets."""
        targets = [target.row() for target in self.targets]
        facts = {"facts": self.facts} if self.facts else {}
        return {"rows": self.rows, "targets": targets} | facts


def tracked(items: Sequence[T], title: str) -> Iterable[T]:
    """The items, with a bar on a terminal that shows how far they are."""
    return track(items, title, console=Console(stderr=True), transient=True)


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return geometric_mean(list(values))


def write(path: Path, reports: Sequence[Report], measured_on: Row | None = None) -> None:
    """Write the reports with the versions and the machine they were measured on, or this one."""
    found = {"environment": measured_on or environment()} | {
        each.name: each.as_json() for each in reports
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stored.as_text(_rounded(found)), encoding="utf-8")


def chip_of(facts: Row) -> str:
    """Return the name of the GPU that was measured, as H200."""
    return str(facts["device"]).split()[1]  # of "NVIDIA H100 80GB HBM3"


def write_of_gpu(kind: str, reports: Sequence[Report], measured_on: Row) -> None:
    """Write the reports of a kind of work on a GPU to results/, under the chip's name."""
    write(_RESULTS / f"{kind}-{chip_of(measured_on).lower()}.json", reports, measured_on)


def read_lines(file: Path) -> tuple[Row, list[Row]]:
    """The JSON lines that a benchmark printed: first the facts, then the rows."""
    texts = file.read_text(encoding="utf-8").splitlines()
    facts, *rows = (json.loads(text) for text in texts if text.startswith("{"))
    return facts, rows


def environment() -> dict[str, Any]:
    """The facts that the numbers depend on."""
    packages = ("dmlax", "jax", "jaxlib", "libtpu", "numpy", "onnxruntime", "torch")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        **_driver(),
        **_cpu(),
        "python": platform.python_version(),
    } | {package: _version(package) for package in packages if _is_installed(package)}


def _cpu() -> Row:
    """The kernels' instruction set and the threads, where they run."""
    if jax.default_backend() != "cpu":
        return {}
    return {
        "instruction set": library.instruction_set(),
        "peers have AMX": amx.is_granted(),
        "threads": len(os.sched_getaffinity(0)),
    }


def _driver() -> dict[str, str]:
    """NVIDIA's, where there is one."""
    facts = Path("/proc/driver/nvidia/version")
    found = re.search(r"\d+\.\d+\.\d+", facts.read_text("utf-8")) if facts.exists() else None
    return {"driver": found[0]} if found else {}


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def _version(package: str) -> str:
    """Version of a distribution, or of sources on the path."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(import_module(package).__version__)


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _table(title: str, rows: Sequence[Row]) -> Table:
    shown = Table(title=title, box=None, pad_edge=False, title_justify="left")
    for name, value in rows[0].items():
        shown.add_column(name, no_wrap=True, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        shown.add_row(*map(_cell, row.values()))
    return shown


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
