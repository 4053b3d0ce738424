"""Writing the vector files, or saying which of them are not what would be written."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from ...format.canonical import dumps
from ...operators import OPERATORS
from ...operators.topics import Topic
from . import descs


@cache
def files() -> Mapping[str, str]:
    """Return the text of every file by its path under the vectors folder."""
    return {f"{topic.operator}/{topic.topic}.json": dumps(topic.file()) for topic in topics()}


def topics() -> Iterator[Topic]:
    """Yield the files of each operator's modules `cases*`, then those that every operator has."""
    for operator in OPERATORS.values():
        for module in iter_modules(import_module(operator.room).__path__):
            if module.name.startswith("cases"):
                yield from operator.module(module.name).topics()
    yield from descs.topics()


def write(root: Path) -> int:
    """Write all files and return how many."""
    wanted = files()
    for name, text in wanted.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return len(wanted)


def stale(root: Path) -> list[str]:
    """Return a line for each file that differs, is missing, or should not be there."""
    wanted = {name: text.encode() for name, text in files().items()}
    stored = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.glob("*/*")}
    return [
        f"{name}: {_state(name in wanted, name in stored)}"
        for name in sorted(wanted.keys() | stored.keys())
        if wanted.get(name) != stored.get(name)
    ]


def _state(is_wanted: bool, is_stored: bool) -> str:
    if not is_stored:
        return "is missing"
    return "differs from what the generator writes" if is_wanted else "is not generated"
