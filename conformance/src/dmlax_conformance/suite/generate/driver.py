"""Writing the vector files and their schema, or saying which are not what would be written."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import iter_modules

from ...operators import OPERATORS
from ...operators.topics import Topic, text_of
from ...paths import schema_file, vectors_dir
from . import descs, schema


@cache
def files() -> Mapping[str, str]:
    """Return the text of every file by its path under the vectors folder, made on every core."""
    found: dict[str, str] = {}
    # Not forked: a caller may have threads.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for part in pool.map(_files_of, (*OPERATORS, None)):
            found |= part
    return found


def topics() -> Iterator[Topic]:
    """Yield the files of each operator, then those that every operator has."""
    for operator in (*OPERATORS, None):
        yield from _topics_of(operator)


def _topics_of(name: str | None) -> Iterator[Topic]:
    """Yield the files of an operator's modules `cases*`, or those that every operator has."""
    if name is None:
        yield from descs.topics()
        return
    operator = OPERATORS[name]
    for module in iter_modules(import_module(operator.room).__path__):
        if module.name.startswith("cases"):
            yield from operator.module(module.name).topics()


def _files_of(name: str | None) -> dict[str, str]:
    return {f"{each.operator}/{each.topic}.json": text_of(each.file()) for each in _topics_of(name)}


def write(root: Path) -> int:
    """Write all files and return how many."""
    wanted = _wanted(root)
    for path, raw in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return len(wanted)


def stale(root: Path) -> list[str]:
    """Return a line for each file that differs, is missing, or should not be there."""
    wanted = _wanted(root)
    paths = sorted({*wanted, *root.glob("*/*")})
    stored = {path: path.read_bytes() for path in paths if path.exists()}
    return [
        f"{path.relative_to(root.parent).as_posix()}: {_state(path in wanted, path in stored)}"
        for path in paths
        if wanted.get(path) != stored.get(path)
    ]


def _wanted(root: Path) -> dict[Path, bytes]:
    """Return the bytes of every file; the schema goes with the suite's own vectors."""
    wanted = {root / name: text.encode() for name, text in files().items()}
    return wanted | ({schema_file(): schema.text().encode()} if root == vectors_dir() else {})


def _state(is_wanted: bool, is_stored: bool) -> str:
    if not is_stored:
        return "is missing"
    return "differs from what the generator writes" if is_wanted else "is not generated"
