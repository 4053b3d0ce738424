"""The command that gives one vector again."""

import shlex
from pathlib import Path


def start_of_command(implementation: str, folder: Path | None = None) -> str:
    """Return the command for an implementation, to which a vector is added."""
    own = [] if folder is None else ["--vectors", str(folder)]
    return shlex.join(["dmlax-conformance", "run", "--implementation", implementation, *own])


def command(start: str, variant: str, name: str) -> str:
    """Return the command for one vector in one variant."""
    return f"{start} {shlex.join(['--variant', variant, '--id', name])}"
