"""Vectors as the JSON objects that an adapter in another process is given, one file each."""

from pathlib import Path

from ..format.canonical import dumps
from ..format.vectors import Vector
from ..suite import protocol
from ..suite.runner import case_of

VARIANT = "export"


def write(vector: Vector, folder: Path) -> None:
    """Write `<id>.json`: the case of the protocol's `run`, without its expectation."""
    case = protocol.run_command(0, case_of(vector), VARIANT)["case"]
    del case["variant"]
    (folder / f"{vector.id}.json").write_text(dumps(case), encoding="utf-8")
