"""The command `scoreboard`."""

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__, adapters
from ..errors import WrongUsage
from ..exit_codes import FINE
from ..format import vectors
from ..format.canonical import dumps
from ..options import add_command
from ..suite import runner
from .record import entry

FORMAT = "scoreboard-2"
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
    entries = _kept(options.output)
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "suite": __version__,
        "python": platform.python_version(),
        "machine": machine(FACTS),
        "vectors": len(suite),
    }
    for name in options.implementation:
        with adapters.started(name) as adapter:
            jobs = (options.jobs or 1) if getattr(adapter, "concurrent", False) else 1
            results = list(runner.run(adapter, suite, adapter.variants, jobs))
            print(f"{name}: {len(results)} results", file=sys.stderr)
            entries[name] = facts | entry(adapter, results)
        record = {"schema": FORMAT, "implementations": entries}
        options.output.write_text(dumps(record), encoding="utf-8")
    return FINE


def _kept(path: Path) -> dict[str, Any]:
    """Return the entries of a file that is there; those of other implementations stay."""
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = {}
    if record.get("schema") != FORMAT:
        raise WrongUsage(f"{path} is no {FORMAT}")
    kept: dict[str, Any] = record["implementations"]
    return kept


def machine(facts: Path) -> str:
    """Return the system and the instructions, on which sums of bytes depend in some libraries."""
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    found = [name for name in INSTRUCTIONS if name in text.split()]
    named = [f"{platform.system()} {platform.machine()}", *([", ".join(found)] if found else [])]
    return " with ".join(named)
