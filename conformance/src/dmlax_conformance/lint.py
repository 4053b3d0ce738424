"""What must hold for the suite as a whole, beyond the schema of each file."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import vectors
from .canonical import dumps
from .locations import schema_file
from .vectors import Vector

LEAST = 170
SHARE = (0.28, 0.45)
LARGEST_FILE = 60_000
LARGEST_SUITE = 1_500_000


def problems(root: Path | None = None) -> list[str]:
    """Return every complaint; malformed files raise instead."""
    files = vectors.find(root)
    suite = [vector for path in files for vector in vectors.load(path)]
    return [
        *(line for path in files for line in _file_problems(path)),
        *_id_problems(suite),
        *_twin_problems(suite),
        *_quota_problems(suite, sum(path.stat().st_size for path in files)),
    ]


def _file_problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    file = vectors.parse(text)
    if text != dumps(file):
        yield f"{path}: is not in canonical form"
    if (path.parent.name, path.stem) != (file["operator"], file["topic"]):
        yield f"{path}: is not named after its operator and topic"
    if len(text) > LARGEST_FILE:
        yield f"{path}: {len(text)} bytes, more than {LARGEST_FILE}"
    for kind, key in (("clauses", "clause"), ("notes", "flags")):
        yield from (f"{path}: {line}" for line in _legend_problems(file, kind, key))


def _legend_problems(file: dict[str, Any], legend: str, key: str) -> Iterator[str]:
    """Complain about words that are used but not explained, or the other way round."""
    used = {word for vector in file["vectors"] for word in vector[key]}
    for word in sorted(used - file[legend].keys()):
        yield f"{word} is not explained in {legend}"
    for word in sorted(file[legend].keys() - used):
        yield f"{word} is explained in {legend} but not used"


def _id_problems(suite: Sequence[Vector]) -> Iterator[str]:
    for name, times in Counter(vector.id for vector in suite).items():
        if times > 1:
            yield f"{name}: {times} vectors share this id"


def _twin_problems(suite: Sequence[Vector]) -> Iterator[str]:
    valid = {vector.id: vector for vector in suite if vector.is_valid}
    for vector in suite:
        twin = valid.get(vector.twin or "")
        if vector.is_valid:
            continue
        if twin is None or twin.operator != vector.operator:
            yield f"{vector.id}: twin {vector.twin} is not a valid vector of the same operator"
        elif not _differs(vector, twin):
            yield f"{vector.id}: is the same call as its twin"


def _differs(a: Vector, b: Vector) -> bool:
    return (a.attributes, a.inputs, a.outputs) != (b.attributes, b.inputs, b.outputs)


def _quota_problems(suite: Sequence[Vector], size: int) -> Iterator[str]:
    if len(suite) < LEAST:
        yield f"{len(suite)} vectors, fewer than {LEAST}"
    invalid = sum(not vector.is_valid for vector in suite)
    if not SHARE[0] * len(suite) <= invalid <= SHARE[1] * len(suite):
        yield f"{invalid} of {len(suite)} vectors are invalid, outside {SHARE}"
    if size > LARGEST_SUITE:
        yield f"{size} bytes, more than {LARGEST_SUITE}"
    for operator in _operators():
        kinds = {vector.is_valid for vector in suite if vector.operator == operator}
        if kinds != {True, False}:
            yield f"{operator}: needs valid and invalid vectors"


def _operators() -> list[str]:
    """Return the operators that the schema knows."""
    text = schema_file().read_text(encoding="utf-8")
    schema = vectors.parse(text)
    return list(schema["properties"]["operator"]["enum"])
