"""The command `scoreboard`."""

import argparse
import json
import platform
import re
import sys
from collections.abc import Mapping
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
from .parts import merged
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
    parser.add_argument("--implementation", action="append", default=[], help=text)
    text = "give only part I of N, each N-th vector, so that N processes share the work"
    parser.add_argument("--part", type=_part, metavar="I/N", help=text)
    text = "take the entry of an implementation from the files of all its parts"
    parser.add_argument("--merge", nargs="+", type=Path, default=[], metavar="FILE", help=text)


def _part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r} is no part, such as 1/4 or 4/4")
    return part, parts


def _write(options: argparse.Namespace) -> int:
    if bool(options.implementation) == bool(options.merge) or (options.merge and options.part):
        raise WrongUsage("either --implementation, with or without --part, or --merge")
    suite = vectors.load_all(options.vectors)
    entries = _kept(options.output)
    if options.merge:
        entries |= merged([_kept(path) for path in options.merge], [each.id for each in suite])
        return _save(options.output, entries)
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "suite": __version__,
        "python": platform.python_version(),
        "machine": machine(FACTS),
        "vectors": len(suite),
    }
    if options.part:
        part, parts = options.part
        suite, facts = suite[part - 1 :: parts], facts | {"part": f"{part}/{parts}"}
    for name in options.implementation:
        with adapters.started(name) as adapter:
            jobs = (options.jobs or 1) if getattr(adapter, "concurrent", False) else 1
            results = list(runner.run(adapter, suite, adapter.variants, jobs))
            print(f"{name}: {len(results)} results", file=sys.stderr)
            entries[name] = facts | entry(adapter, results)
        _save(options.output, entries)
    return FINE


def _save(path: Path, entries: Mapping[str, Any]) -> int:
    path.write_text(dumps({"schema": FORMAT, "implementations": entries}), encoding="utf-8")
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
