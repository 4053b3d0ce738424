"""Checks of the suite as a whole, beyond the schema of each file."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from ..format import vectors
from ..format.vectors import ExpectedError, Vector
from ..operators import OPERATORS
from ..operators.desc_rules import violations
from ..operators.descs import needs
from ..operators.topics import text_of
from . import corners, coverage
from .controls import Zeros
from .runner import CAPABILITIES, PASSED, judge_alone

LEAST = 170
SHARE_OF_CALLS = (0.15, 0.45)
SHARE_OF_DESCS = (0.6, 0.8)
LARGEST_FILE = 75_000
LARGEST_SUITE = 700_000 * len(OPERATORS)


def problems(root: Path | None = None) -> list[str]:
    """Return every complaint; malformed files raise instead."""
    files = vectors.find(root)
    suite = [vector for path in files for vector in vectors.load(path)]
    return [
        *(line for path in files for line in _file_problems(path)),
        *_id_problems(suite),
        *_base_problems(suite),
        *_pairing_problems(suite),
        *_desc_problems(suite),
        *_memory_problems(suite),
        *coverage.problems(suite),
        *coverage.size_problems(suite, OPERATORS),
        *coverage.cross_problems(suite, OPERATORS),
        *corners.problems(suite, OPERATORS),
        *_quota_problems(suite, sum(path.stat().st_size for path in files)),
    ]


def _file_problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    file = vectors.parse(text)
    yield from (f"{path}:{line}" for line in vectors.schema_problems(file))
    if text != text_of(file):
        yield f"{path}: is not in canonical form"
    if (path.parent.name, path.stem) != (file["operator"], file["topic"]):
        yield f"{path}: is not named after its operator and topic"
    if len(text) > LARGEST_FILE:
        yield f"{path}: {len(text)} bytes, more than {LARGEST_FILE}"
    for kind, key in (("clauses", "clause"), ("notes", "flags")):
        yield from (f"{path}: {line}" for line in _legend_problems(file, kind, key))


def _legend_problems(file: dict[str, Any], legend: str, key: str) -> Iterator[str]:
    """Complain about words that are explained but not used; the reverse is malformed."""
    used = {word for vector in file["vectors"] for word in vector[key]}
    for word in sorted(file[legend].keys() - used):
        yield f"{word} is explained in {legend} but not used"


def _id_problems(suite: Sequence[Vector]) -> Iterator[str]:
    for name, times in Counter(vector.id for vector in suite).items():
        if times > 1:
            yield f"{name}: {times} vectors share this id"


def _base_problems(suite: Sequence[Vector]) -> Iterator[str]:
    valid = {vector.id: vector for vector in suite if vector.is_valid}
    for vector in suite:
        base = valid.get(vector.base or "")
        if vector.is_valid:
            continue
        if base is None or base.operator != vector.operator:
            yield f"{vector.id}: twin {vector.base} is not a valid vector of the same operator"
        elif not _differs(vector, base):
            yield f"{vector.id}: is the same call as its twin"


def _pairing_problems(suite: Sequence[Vector]) -> Iterator[str]:
    """Complain where zeros would pass, and about company that does not help or is not needed."""
    known = {vector.id: _zeros_pass(vector) for vector in suite if vector.is_valid}
    for vector in (vector for vector in suite if vector.is_valid):
        if vector.paired_with is None:
            if known[vector.id]:
                yield f"{vector.id}: zeros answer it, and it names no vector beside it"
        elif not known[vector.id]:
            yield f"{vector.id}: counts alone, and names a vector beside it"
        elif known.get(vector.paired_with.id, True):
            other = vector.paired_with.id
            yield f"{vector.id}: {other} beside it is not valid, or zeros answer it too"


def _zeros_pass(vector: Vector) -> bool:
    return judge_alone(Zeros(), vector, "eager").verdict in PASSED


def _differs(a: Vector, b: Vector) -> bool:
    if a.desc is not None or b.desc is not None:
        return (a.desc, a.feature_level) != (b.desc, b.feature_level)
    return (a.attributes, a.inputs, a.outputs) != (b.attributes, b.inputs, b.outputs)


def _desc_problems(suite: Sequence[Vector]) -> Iterator[str]:
    """Complain about descs that the oracle judges otherwise, or that require other things."""
    for vector in suite:
        if vector.desc is None or vector.feature_level is None:
            continue
        needed = needs(vector.operator, vector.desc)
        if vector.requires & CAPABILITIES - {"large"} != needed:
            yield f"{vector.id}: requires {sorted(vector.requires)}, needs {sorted(needed)}"
        found = violations(vector.operator, vector.desc, vector.feature_level)
        codes = {(each.code, each.field) for each in found}
        if codes != _refusals(vector):
            yield f"{vector.id}: the oracle says {sorted(codes)}"
        if found and found[0].rule not in vector.clause:
            yield f"{vector.id}: clause does not name {found[0].rule}"


def _memory_problems(suite: Sequence[Vector]) -> Iterator[str]:
    """Complain where a tensor that only an array can hold is not announced, or another is."""
    for vector in suite:
        sizes = [prod(each.sizes) for each in vector.inputs.values() if each.is_sparse]
        if ("large" in vector.requires) != bool(sizes) or bool(vector.memory) != bool(sizes):
            yield f"{vector.id}: a sparse input, `memory` and the requirement go together"
        if sum(sizes) > vector.memory:
            yield f"{vector.id}: {vector.memory} bytes are fewer than its inputs have"


def _refusals(vector: Vector) -> set[tuple[str, str]]:
    """Return every answer that the vector lists as right."""
    if not isinstance(vector.expect, ExpectedError):
        return set()
    return {(vector.expect.code, vector.expect.field), *vector.expect.also}


def _quota_problems(suite: Sequence[Vector], size: int) -> Iterator[str]:
    if len(suite) < LEAST:
        yield f"{len(suite)} vectors, fewer than {LEAST}"
    yield from _share_problems([v for v in suite if v.desc is None], SHARE_OF_CALLS)
    yield from _share_problems([v for v in suite if v.desc is not None], SHARE_OF_DESCS)
    if size > LARGEST_SUITE:
        yield f"{size} bytes, more than {LARGEST_SUITE}"
    for operator in OPERATORS:
        kinds = {vector.is_valid for vector in suite if vector.operator == operator}
        if kinds != {True, False}:
            yield f"{operator}: needs valid and invalid vectors"


def _share_problems(part: Sequence[Vector], share: tuple[float, float]) -> Iterator[str]:
    invalid = sum(not vector.is_valid for vector in part)
    if not share[0] * len(part) <= invalid <= share[1] * len(part):
        yield f"{invalid} of {len(part)} vectors are invalid, outside {share}"
