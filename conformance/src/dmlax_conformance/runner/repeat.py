"""The command that gives one vector again."""

import shlex
from pathlib import Path


def start_of_command(
    implementation: str, folder: Path | None = None, time_limit: float | None = None
) -> str:
    """Return the command for an implementation, to which a vector is added."""
    options = ("--implementation", implementation), ("--vectors", folder)
    pairs = [pair for pair in (*options, ("--time-limit", time_limit)) if pair[1] is not None]
    words = (str(word) for pair in pairs for word in pair)
    return shlex.join(["dmlax-conformance", "run", *words])


def command(start: str, variant: str, name: str) -> str:
    """Return the command for one vector in one variant."""
    return f"{start} {shlex.join(['--variant', variant, '--id', name])}"
