"""Verification of the vectors: the oracle recomputes every expectation, and nothing is missing.

Operators are verified apart, by two processes. A complaint begins with the file and the place.
"""

import json
import multiprocessing
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from dmlax_conformance.errors import Malformed, SpecViolation, in_file
from dmlax_conformance.format import canonical, descs, limits, tensors, vectors
from dmlax_conformance.format.json_schema import pointer
from dmlax_conformance.format.tensors import Tensor
from dmlax_conformance.format.vectors import ExpectedError, ExpectedTensor, Vector
from dmlax_conformance.models import golden
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.calls import answer
from dmlax_conformance.oracle.clauses import CLAUSES, NOTES
from dmlax_conformance.oracle.descriptors import answer_desc, needs, violations
from dmlax_conformance.oracle.fixed_point import FIELD
from dmlax_conformance.paths import vectors_dir
from dmlax_conformance.terminal import progress

from . import digest
from .coverage import registry

FOLDERS = ("core", "systematic")
LARGEST_FILE = 75_000  # bytes that people still review
OF_DESCS = frozenset({"descriptors", "strides"})
REQUANTIZATION = frozenset({"requantization"})
MODELS = "golden models"
RULES = json.loads((Path(__file__).parent / "rules.json").read_text(encoding="utf-8"))
TOGETHER = RULES["together"]  # patterns of refused vectors that differ in several fields, and why


class Report(NamedTuple):
    """The complaints about one operator, and the facts that the whole suite needs."""

    problems: list[str]
    kept: set[str]
    broken: set[str]
    lines: dict[str, digest.Line]


def problems(root: Path | None = None, jobs: int = 2) -> list[str]:
    """Return every complaint about a folder of vectors, and about the golden models beside ours."""
    folder = root or vectors_dir()
    there = {path.relative_to(folder).parts[0] for path in vectors.find(folder)}
    names = [*(() if root else (MODELS,)), *sorted(there | OPERATORS.keys())]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        given = pool.map(report, [folder] * len(names), names)
        reports = list(progress(given, "operators", len(names)))
    total = Report([], set(), set(), {})
    for each in reports:
        total.problems.extend(each.problems)
        total.kept.update(each.kept)
        total.broken.update(each.broken)
        total.lines.update(each.lines)
    missing = registry.clause_problems(total.kept, total.broken)
    return [*total.problems, *missing, *digest.problems(total.lines)]


def report(folder: Path, operator: str) -> Report:
    """Verify the vectors of one operator."""
    if operator == MODELS:
        return Report(golden.problems(), set(), set(), {})
    found, suite = Report([], set(), set(), {}), list[Vector]()
    for path in vectors.find(folder):
        if path.relative_to(folder).parts[0] == operator:
            try:
                suite += _verified(path, found)
            except Malformed as error:
                found.problems.append(str(error))
    if operator in OPERATORS:
        found.problems.extend(registry.problems(operator, suite))
    return found


def _verified(path: Path, report: Report) -> list[Vector]:
    """Verify one file, and return its vectors with every expected element."""
    suite = vectors.load(path)
    text = limits.read(path)
    file = vectors.parse(text)
    with in_file(path):
        vectors.check(file)
    report.problems.extend(f"{path}:{line}" for line in file_problems(path, file, text))
    known, values = {v.id: v for v in suite}, vectors.completed(file["vectors"])
    rows = list(zip(suite, map(oracle_answer, suite), values, strict=True))
    alone = {v.id for v, said, _ in rows if v.is_valid and not zeros_answer(v, said.outputs)}
    for index, (vector, said, value) in enumerate(rows):
        place = f"{path}:{pointer('vectors', index)}"
        lines = (
            *vector_problems(vector, known),
            *_twin_problems(vector, known),
            *_expect_problems(vector, said),
            *_beside_problems(vector, alone),
        )
        report.problems.extend(f"{place}/{line}" for line in lines)
        (report.kept if vector.is_valid else report.broken).update(vector.clause)
        if vector.id in report.lines:
            first = report.lines[vector.id].place
            report.problems.append(f"{place}/id: {vector.id} is also the id at {first}")
        report.lines[vector.id] = digest.line(place, {"operator": vector.operator, **value})
    return [with_words(vector, said.outputs) for vector, said, _ in rows]


def file_problems(path: Path, file: Mapping[str, Any], text: str) -> Iterator[str]:
    """Complain about the form, the name and the legends of a file."""
    source = OPERATORS[file["operator"]].source
    if file["source"] != source:
        yield f"/source: is {file['source']!r}, the registry's is {source!r}"
    if text != canonical.dumps(dict(file), canonical.VECTORS):
        yield "/: is not in canonical form"
    if (path.parents[1].name, path.stem) != (file["operator"], file["topic"]):
        yield "/topic: the file is not named after its operator and topic"
    if path.parent.name not in FOLDERS:
        yield f"/: is in the folder {path.parent.name}, not in {' or '.join(FOLDERS)}"
    if len(text) > LARGEST_FILE:
        yield f"/: {len(text)} bytes, more than {LARGEST_FILE}"
    for legend, wanted in legends(file["vectors"]).items():
        for word, said in file[legend].items():
            if word not in wanted:
                yield f"/{legend}/{word}: is explained but not used"
            elif said != wanted[word]:
                yield f"/{legend}/{word}: says {said!r}, the oracle {wanted[word]!r}"


def legends(values: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str | None]]:
    """Return what the oracle says about the clauses and flags that vectors of a file name."""
    return {
        legend: {word: texts.get(word) for word in sorted({w for v in values for w in v[key]})}
        for legend, key, texts in (("clauses", "clause", CLAUSES), ("notes", "flags", NOTES))
    }


def vector_problems(vector: Vector, known: Mapping[str, Vector]) -> Iterator[str]:
    """Complain about an id, the order of a file, memory, and what a vector requires."""
    if not vector.id.startswith(f"{OPERATORS[vector.operator].prefix}-"):
        yield f"id: {vector.id} lacks the prefix of {vector.operator}"
    if vector.after is not None and (vector.after not in known or vector.after == vector.id):
        yield f"after: {vector.after} is no other vector of this file"
    sizes = [prod(each.sizes) for each in vector.inputs.values() if each.is_sparse]
    if ("large" in vector.requires) != bool(sizes) or bool(vector.memory) != bool(sizes):
        yield f"memory: {vector.id}: a sparse input, `memory` and the requirement go together"
    if sum(sizes) > vector.memory:
        yield f"memory: {vector.id}: {vector.memory} bytes are fewer than its inputs have"
    needed = set() if vector.desc is None else needs(vector.operator, vector.desc)
    needed |= REQUANTIZATION if FIELD in vector.attributes else set()
    if vector.requires & (OF_DESCS | REQUANTIZATION) != needed:
        yield f"requires: {vector.id} has {sorted(vector.requires)}, needs {sorted(needed)}"


def _twin_problems(vector: Vector, known: Mapping[str, Vector]) -> Iterator[str]:
    if vector.is_valid:
        return
    twin = known.get(vector.base or "")
    if twin is None or not twin.is_valid:
        yield f"twin: {vector.id}: {vector.base} is no valid vector of this file"
        return
    changed = differences(vector, twin)
    is_known = any(fnmatchcase(vector.id, pattern) for pattern in TOGETHER)
    if not changed or (len(changed) > 1 and not is_known):
        yield f"twin: {vector.id} differs from {twin.id} in {changed or 'nothing'}, not one place"


def differences(vector: Vector, other: Vector) -> list[str]:
    """Return the fields in which two calls, or two descs, differ."""
    one, two = (
        {**v.inputs, **v.attributes, **v.outputs}
        if v.desc is None
        else {**v.desc, "FeatureLevel": v.feature_level}
        for v in (vector, other)
    )
    return [name for name in {**one, **two} if one.get(name, two) != two.get(name, one)]


def _beside_problems(vector: Vector, alone: Collection[str]) -> Iterator[str]:
    """Complain where zeros would pass, and about company that does not help or is not needed."""
    other = vector.paired_with
    if vector.id in alone and other is not None:
        yield f"beside: {vector.id} counts alone, and names a vector beside it"
    elif vector.is_valid and vector.id not in alone:
        if other is None:
            yield f"beside: zeros answer {vector.id}, and it names no vector beside it"
        elif other.id not in alone:
            yield f"beside: {other.id} is not valid, or zeros answer it too"


class Answer(NamedTuple):
    """The oracle's answer: outputs, or refusals and the first rule that a desc breaks."""

    outputs: Mapping[str, Tensor]
    refusals: list[tuple[str, str]]
    rule: str = ""


def oracle_answer(vector: Vector) -> Answer:
    """Return the oracle's answer to a vector."""
    try:
        if vector.desc is None:
            given = vector.attributes, vector.inputs, vector.outputs
            return Answer(answer(vector.operator, *given), [])
        level = vector.feature_level or ""
        broken = violations(vector.operator, vector.desc, level)
        if broken or not vector.is_valid:
            refusals = dict.fromkeys((each.code, each.field) for each in broken)
            return Answer({}, [*refusals], broken[0].rule if broken else "")
        buffers = answer_desc(vector.operator, vector.desc, level, vector.inputs)
        return Answer({k: descs.gather(vector.desc[k], own) for k, own in buffers.items()}, [])
    except SpecViolation as violation:
        return Answer({}, [(violation.code, violation.field)])


def _expect_problems(vector: Vector, said: Answer) -> Iterator[str]:
    """Complain where the expectation of a vector is not the oracle's, with both."""
    if isinstance(vector.expect, ExpectedError):
        first, wanted = (vector.expect.code, vector.expect.field), {*vector.expect.also}
        if said.rule not in ("", *vector.clause[:1]):
            yield f"clause: {vector.id} does not name {said.rule}"
        if {first, *wanted} != {*said.refusals} or first != said.refusals[0]:
            own = said.refusals or "that it is valid"
            yield f"expect/error: {vector.id} is {[first, *wanted]}, the oracle says {own}"
    elif said.refusals:
        yield f"expect: {vector.id} is valid, the oracle refuses it with {said.refusals}"
    else:
        for name, want in vector.expect.items():
            for line in _compared(want, said.outputs[name]):
                yield f"expect/outputs/{name}: {vector.id}: {line}"


def _compared(want: ExpectedTensor, found: Tensor) -> Iterator[str]:
    """Say where an expected tensor is not the oracle's."""
    words = compared_words(want, found)
    if (want.dtype, want.sizes) != (found.dtype, found.sizes):
        yield f"is {want.dtype} {want.sizes}, the oracle's is {found.dtype} {found.sizes}"
    elif want.sha256:
        sha256 = tensors.digest(Tensor(want.dtype, (len(words),), words))
        if sha256 != want.sha256:
            yield f"sha256 is {want.sha256}, the oracle's is {sha256}"
    elif words != want.words:
        pairs = enumerate(zip(want.words, words, strict=True))
        at, (one, two) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        yield f"element {at} is {one}, the oracle's is {two}"


def compared_words(want: ExpectedTensor, found: Tensor) -> tuple[int, ...]:
    """Return the words of an output that count; of rows only the first ones do."""
    if want.compare != "exact_rows":
        return found.words
    rows = want.rows if want.sha256 else len(want.words) // max(want.sizes[-1], 1)
    return found.words[: rows * want.sizes[-1]]


def zeros_answer(vector: Vector, found: Mapping[str, Tensor]) -> bool:
    """Return whether an answer of zeros would pass."""
    assert not isinstance(vector.expect, ExpectedError)
    return all(
        word == 0 or (index in want.listed and 0 in want.listed[index].any_of)
        for name, want in vector.expect.items()
        for index, word in enumerate(compared_words(want, found[name]) if name in found else ())
    )


def with_words(vector: Vector, found: Mapping[str, Tensor]) -> Vector:
    """Return a vector whose digests are the oracle's elements."""
    if not vector.has_digests or not found or isinstance(vector.expect, ExpectedError):
        return vector
    expect = {
        name: replace(want, words=compared_words(want, found[name]), sha256="", rows=0)
        for name, want in vector.expect.items()
    }
    return replace(vector, expect=expect)
