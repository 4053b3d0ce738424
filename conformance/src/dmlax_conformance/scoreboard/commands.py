"""The command `scoreboard`."""

import argparse
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__, adapters
from ..exit_codes import FINE
from ..format import vectors
from ..format.canonical import dumps
from ..options import add_command
from ..suite import runner
from .record import entry

FORMAT = "scoreboard-1"
FACTS = Path("/proc/cpuinfo")
INSTRUCTIONS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp")


def add_commands(commands: Any) -> None:
    """Add the command."""
    text = "write dated results of implementations"
    parser = add_command(commands, "scoreboard", _write, text, "vectors", "jobs")
    parser.add_argument("--output", required=True, type=Path, metavar="FILE")
    text = "a name that `run` knows; may be repeated"
    parser.add_argument("--implementation", required=True, action="append", help=text)


def _write(options: argparse.Namespace) -> int:
    suite = vectors.load_all(options.vectors)
    entries = {}
    for name in options.implementation:
        with adapters.started(name) as adapter:
            jobs = (options.jobs or 1) if getattr(adapter, "concurrent", False) else 1
            results = list(runner.run(adapter, suite, adapter.variants, jobs))
            print(f"{name}: {len(results)} results", file=sys.stderr)
            entries[name] = entry(adapter, results)
    record = {
        "schema": FORMAT,
        "date": datetime.now(UTC).date().isoformat(),
        "suite": __version__,
        "python": platform.python_version(),
        "machine": machine(FACTS),
        "vectors": len(suite),
        "implementations": entries,
    }
    options.output.write_text(dumps(record), encoding="utf-8")
    return FINE


def machine(facts: Path) -> str:
    """Return the system and the instructions, on which sums of bytes depend in some libraries."""
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    found = [name for name in INSTRUCTIONS if name in text.split()]
    named = [f"{platform.system()} {platform.machine()}", *([", ".join(found)] if found else [])]
    return " with ".join(named)
