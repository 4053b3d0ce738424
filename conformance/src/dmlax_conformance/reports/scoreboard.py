"""The command `scoreboard`: dated totals of implementations, and the vectors that they fail.

Vectors are of three kinds, which mean different things for a library that knows no DirectML:
`values` are valid calls, `refusals` calls that break a rule, `descriptors` both, through a desc.
"""

import argparse
import json
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, product
from pathlib import Path
from typing import Any

from .. import __version__, adapters
from ..adapters.common import REFUSED
from ..errors import WrongUsage
from ..exit_codes import FINE
from ..format import vectors
from ..format.canonical import dumps
from ..options import add_command
from ..runner import run as runner
from ..runner.adapter import Adapter
from ..runner.run import Result

FORMAT = "scoreboard-3"
LISTED = ("permitted", "fail", "error")  # verdicts whose vectors are listed; others are counted
SUMS = ("variants", "refusals", "unsupported")
DISTRIBUTIONS = ("dmlax", "jax")
FACTS = Path("/proc/cpuinfo")
INSTRUCTIONS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8", "asimddp")
REASON_LENGTH = 120

Entry = Mapping[str, Any]


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
        entries |= merged([_kept(path) for path in options.merge], len(suite))
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
            entries[name] = facts | {"versions": _versions(adapter)} | sums(results)
        _save(options.output, entries)
    return FINE


def _save(path: Path, entries: Mapping[str, Any]) -> int:
    path.write_text(dumps({"schema": FORMAT, "implementations": entries}), encoding="utf-8")
    return FINE


def _kept(path: Path) -> dict[str, Any]:
    """Return the entries of a file that exists; entries of other implementations stay."""
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = {}
    if record.get("schema") != FORMAT:
        raise WrongUsage(f"{path} is no {FORMAT}")
    return dict(record["implementations"])


def machine(facts: Path) -> str:
    """Return the system and the instructions, on which sums of bytes depend in some libraries."""
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    found = [name for name in INSTRUCTIONS if name in text.split()]
    named = [f"{platform.system()} {platform.machine()}", *([", ".join(found)] if found else [])]
    return " with ".join(named)


def _versions(adapter: Adapter) -> dict[str, str]:
    """Return the versions that the adapter names, or else those of `dmlax` and of JAX."""
    named: dict[str, str] | None = getattr(adapter, "versions", None)
    if named is None and adapter.name == "dmlax":
        with suppress(PackageNotFoundError):  # a checkout that is not installed
            return {name: version(name) for name in DISTRIBUTIONS}
    return named or {}


def sums(results: Iterable[Result]) -> dict[str, Any]:
    """Return results by variant, operator and kind, and counts of outcomes and of reasons."""
    total: dict[str, Any] = {name: {} for name in SUMS}
    counted = set[tuple[str, str]]()
    for result in results:
        vector, verdict = result.vector, result.verdict
        kind = "descriptors" if vector.desc else "values" if vector.is_valid else "refusals"
        one = [vector.id] if verdict in LISTED else 1
        _add(total["variants"], {result.variant: {vector.operator: {kind: {verdict: one}}}})
        detail = (result.outcome.details or ("",))[0]
        if verdict == "unsupported":
            reason = {"count": 1, "example": vector.id}
            _add(total["unsupported"], {kind: {_shortened(kind, detail): reason}})
        elif verdict in LISTED and kind == "refusals" and (vector.id, detail) not in counted:
            counted.add((vector.id, detail))
            _add(total["refusals"], {detail: 1})
    return total


def _add(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add up counts, join lists of ids, and keep the first of two examples."""
    for key, value in more.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(key, {}), value)
        elif isinstance(value, int):
            total[key] = total.get(key, 0) + value
        elif isinstance(value, list):
            total[key] = sorted([*total.get(key, []), *value])
        else:
            total[key] = min(total.get(key, value), value)


def _shortened(kind: str, reason: str) -> str:
    """Return a reason without the numbers of a call, and a refusal without the library's words."""
    if kind == "refusals" and reason.startswith(REFUSED):
        return REFUSED
    return re.sub(r"(?<![A-Za-z0-9])\d+(, ?\d+)*", "N", reason)[:REASON_LENGTH]


def merged(files: Sequence[Mapping[str, Entry]], count: int) -> dict[str, Entry]:
    """Return the entries that one process would have written, from the files of all parts."""
    names = dict.fromkeys(chain(*files))
    parts = {name: [entries[name] for entries in files if name in entries] for name in names}
    return {name: _merged(name, entries, count) for name, entries in parts.items()}


def _merged(name: str, parts: Sequence[Entry], count: int) -> Entry:
    entry = {key: value for key, value in parts[0].items() if key not in (*SUMS, "part")}
    for each, (key, value) in product(parts, entry.items()):
        if each[key] != value:
            raise WrongUsage(f"{name}: {key} is {value} in one part and {each[key]} in another")
    if entry["vectors"] != count:
        raise WrongUsage(f"{name}: parts of {entry['vectors']} vectors, not of these {count}")
    found = sorted(str(each.get("part")) for each in parts)
    if found != sorted(f"{part}/{len(parts)}" for part in range(1, len(parts) + 1)):
        raise WrongUsage(f"{name}: the parts are {', '.join(found)}")
    for each in parts:
        _add(entry, {key: each[key] for key in SUMS})
    return entry
