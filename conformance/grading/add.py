"""Adding vectors: calls as JSON in, vectors with ids, expectations and flags out.

A call says operator, comment, attributes, inputs and outputs, or desc and feature level; the rest
is filled in where it is not given. Nothing is written if anything is wrong.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from dmlax_conformance import __version__
from dmlax_conformance.errors import Malformed, in_file
from dmlax_conformance.format import canonical, limits, tensors, vectors
from dmlax_conformance.format.json_schema import Validator, pointer
from dmlax_conformance.format.tensors import Tensor, count
from dmlax_conformance.format.vectors import ExpectedError, ExpectedTensor, Request, Vector
from dmlax_conformance.oracle import OPERATORS
from dmlax_conformance.oracle.descriptors import needs, requests, violations
from dmlax_conformance.oracle.fixed_point import FIELD
from dmlax_conformance.paths import vectors_dir

from . import verify
from .coverage import boundary, elements, registry

LONGEST = 64  # elements of an output that is written out; a longer one has a digest
CALL, FLAGS = verify.RULES["call"], verify.RULES["flags"]  # flags by patterns of classes
CALL["properties"]["operator"] = {"enum": [*OPERATORS]}
CHANNELS = ("FilterScaleTensor", "FilterZeroPointTensor")
WIDE = {"bool", "int64", "uint64", "float64"}


class Added(NamedTuple):
    """New vectors, the vectors of their operators that were there, and the texts of files."""

    vectors: list[Vector]
    before: list[Vector]
    texts: dict[Path, str]


def add(path: Path, root: Path | None = None) -> Added:
    """Return what a file of calls adds, verified; nothing is written."""
    folder, before, added = root or vectors_dir(), list[Vector](), list[Vector]()
    files: dict[Path, dict[str, Any]] = {}
    with in_file(path):
        calls = vectors.parse(limits.read(path))
        Validator({"type": "array", "items": CALL}).check(calls)
        for index, call in enumerate(calls):
            at = pointer(index)
            try:
                if call["operator"] not in {each.operator for each in before}:
                    before += vectors.load_all(folder, (call["operator"],))
                vector = _completed(call, at, [*before, *added])
                target = _target(call, vector, folder, [*before, *added])
                file = files.setdefault(target, _file(target, vector.operator))
                near = {v.id: v for v in (*before, *added) if v.file == target}
                file["vectors"].append(_encoded(vector, call, near.get(vector.base or "")))
                added.append(replace(vector, file=target))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise Malformed(at, f"{type(error).__name__}: {error}") from None
        texts = {
            target: canonical.dumps(file | verify.legends(file["vectors"]), canonical.VECTORS)
            for target, file in files.items()
        }
        for line in _problems(texts, folder, {each.operator for each in added}):
            raise Malformed("/", f"would make {line}")
    return Added(added, before, texts)


def write(texts: Mapping[Path, str]) -> None:
    """Write the files."""
    for target, text in texts.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _completed(call: Mapping[str, Any], at: str, known: Sequence[Vector]) -> Vector:
    """Return a call as a vector, with everything filled in."""
    operator, desc, level = call["operator"], call.get("desc"), call.get("feature_level")
    inputs = {k: tensors.decode(v, f"{at}/inputs/{k}") for k, v in call.get("inputs", {}).items()}
    asked = call.get("outputs", {})
    outputs = {k: Request(v["dtype"], tuple(v["sizes"])) for k, v in asked.items()}
    if desc is not None:
        outputs = {} if violations(operator, desc, str(level)) else requests(operator, desc)
    vector = vector_of(operator, call.get("attributes", {}), inputs, outputs, desc, level)
    said = verify.oracle_answer(vector)
    name = re.sub("[^a-z0-9]+", "-", call.get("name", call["comment"]).lower()).strip("-")
    vector = replace(
        with_answer(vector, said, call),
        id=_unused(f"{OPERATORS[operator].prefix}-{name[:60]}", {each.id for each in known}),
        comment=call["comment"],
        base=call.get("twin"),
    )
    if not vector.is_valid and vector.base is None:
        vector = replace(vector, base=_twin_of(vector, known))
        if vector.base is None:
            message = "no valid vector differs in one place; give a twin"
            raise Malformed(at, f"{said.refusals[0]}: {message}")
    vector = replace(vector, flags=frozenset(call.get("flags", flags_of(vector))))
    required = needs(operator, desc) if desc else {f"dtype:{dtype}" for dtype in _wide(vector)}
    required |= {FIELD.lower()} if FIELD in vector.attributes else set()
    clause = call.get("clause") or ([said.rule] if said.rule else _usual_clauses(vector, known))
    return replace(vector, clause=tuple(clause), requires=frozenset(call.get("requires", required)))


def _twin_of(vector: Vector, known: Sequence[Vector]) -> str | None:
    """Return the first valid vector that differs in one place, if there is one."""
    twins = (v for v in known if v.is_valid and (v.desc is None) == (vector.desc is None))
    return next((v.id for v in twins if len(verify.differences(vector, v)) == 1), None)


def _wide(vector: Vector) -> set[str]:
    """Return the data types of the inputs of a call that not every implementation has."""
    return set() if vector.desc else WIDE & {each.dtype for each in vector.inputs.values()}


def vector_of(
    operator: str,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Request],
    *desc: Any,
) -> Vector:
    """Return a call, or a desc and its feature level, as a vector that expects nothing yet."""
    words = ("", 1, operator, "", "", (), frozenset[str](), frozenset[str](), None)
    return Vector(*words, attributes, inputs, outputs, {}, Path(), *desc)


def with_answer(vector: Vector, said: verify.Answer, call: Mapping[str, Any]) -> Vector:
    """Return a vector that expects the oracle's answer; a call says which rows and words count."""
    if said.refusals:
        (code, field), *also = said.refusals
        return replace(vector, expect=ExpectedError(code, field, tuple(also)))
    rows, expect = dict(call.get("rows", {})), {}
    if "OutputCountTensor" in said.outputs:
        rows["OutputCoordinatesTensor"] = said.outputs["OutputCountTensor"].words[0]
    for name, own in said.outputs.items():
        words = own.words[: rows[name] * own.sizes[-1]] if name in rows else own.words
        compare = "exact_rows" if name in rows else "exact"
        compare = "exact_or_listed" if name in call.get("listed", {}) else compare
        kept = rows.get(name, 0)
        expect[name] = ExpectedTensor(own.dtype, own.sizes, words, compare, {}, rows=kept)
    return replace(vector, expect=expect)


def _unused(name: str, ids: set[str]) -> str:
    names = (name, *(f"{name}-{number}" for number in range(2, len(ids) + 3)))
    return next(each for each in names if each not in ids)


def flags_of(vector: Vector) -> set[str]:
    """Return the flags that follow from what a vector is, and from the classes that it covers."""
    if not vector.is_valid:
        return {"Invalid"}
    given = vector.inputs.values()
    holds = {
        "Empty": any(count(each.sizes) == 0 for each in given),
        "Large": any(each.made_by for each in given),
        "WideType": bool(_wide(vector)),
        "Groups": vector.attributes.get("GroupCount", 1) > 1,
        "PerChannel": any(count(x.sizes) > 1 for k, x in vector.inputs.items() if k in CHANNELS),
        FIELD: FIELD in vector.attributes,
        "Rank3": len(elements.counted(vector).sizes) == 3,
        "Strided": bool(vector.desc) and "strides" in needs(vector.operator, vector.desc or {}),
    }
    has = registry.covered(vector.operator, [vector])
    holds |= {flag: any(re.match(own, each) for each in has) for flag, own in FLAGS.items()}
    for flag, (least, *names) in verify.RULES["flags of attributes"].items():
        holds[flag] = max((0, *chain(*(vector.attributes.get(x, ()) for x in names)))) > least
    return {flag for flag, is_so in holds.items() if is_so}


def _usual_clauses(vector: Vector, known: Sequence[Vector]) -> tuple[str, ...]:
    """Return the clauses of most vectors that are refused, or flagged, as this one is."""
    kind = vector.operator, vector.is_valid, vector.desc is None
    same = [v for v in known if (v.operator, v.is_valid, v.desc is None) == kind]
    if not same:
        raise Malformed("", f"the first vectors of {vector.operator} need clause")
    if not vector.is_valid:
        same = [v for v in same if v.expect == vector.expect] or same
    same = [v for v in same if v.flags == vector.flags] or same
    return Counter(v.clause for v in same).most_common(1)[0][0]


def _target(call: Mapping[str, Any], vector: Vector, folder: Path, known: Sequence[Vector]) -> Path:
    """Return the file of the twin, of the vector beside or before, or the one that a call names."""
    near = {vector.base, call.get("after"), call.get("beside")}
    beside = next((v.file for v in known if v.id in near), None)
    if beside is not None and not {"topic", "folder"} & call.keys():
        return beside
    path = folder.joinpath(vector.operator, call.get("folder", "core"), call.get("topic", "more"))
    return path.with_name(f"{path.name}.json")


def _file(target: Path, operator: str) -> dict[str, Any]:
    """Return the file at a path, or an empty one."""
    source = OPERATORS[operator].source
    head = {"schema": "vectors-1", "operator": operator, "topic": target.stem, "source": source}
    empty = {**head, "clauses": {}, "notes": {}, "vectors": []}
    return dict(vectors.parse(target.read_text(encoding="utf-8"))) if target.exists() else empty


def _encoded(vector: Vector, call: Mapping[str, Any], twin: Vector | None) -> dict[str, Any]:
    """Return the JSON form of a vector; a twin in the same file leaves what differs from it."""
    parts = _changed(vector, twin) if twin else _parts(vector)
    return {
        "id": vector.id,
        "rev": 1,
        "comment": vector.comment,
        "since": next_version(),
        "clause": list(vector.clause),
        "flags": sorted(vector.flags),
        **({"twin": vector.base} if vector.base else {}),
        **{k: call[k] for k in ("after", "beside", "feature_level") if k in call},
        "requires": sorted(vector.requires),
        **parts,
        "expect": _encoded_expect(vector, call.get("listed", {})),
    }


def _parts(vector: Vector) -> dict[str, dict[str, Any]]:
    """Return the JSON form of a call, or of a desc and its buffers."""
    return encoded_call(vector) | ({"desc": dict(vector.desc)} if vector.desc else {})


def _changed(vector: Vector, twin: Vector) -> dict[str, Any]:
    """Return what differs from the twin; everything, if the twin has more fields."""
    parts, own = _parts(vector), _parts(twin)
    kept = ["desc"] if "desc" in parts else [*parts]
    if any(own[part].keys() - parts[part].keys() for part in kept):
        return parts
    new = {k: dict(x for x in parts[k].items() if x not in own[k].items()) for k in kept}
    return {"partial": True, **{part: fields for part, fields in new.items() if fields}}


def encoded_call(vector: Vector) -> dict[str, Any]:
    """Return the JSON form of the attributes, inputs and outputs of a vector."""
    return {
        "attributes": dict(vector.attributes),
        "inputs": {name: tensors.encode(own) for name, own in vector.inputs.items()},
        "outputs": {k: {"dtype": v.dtype, "sizes": [*v.sizes]} for k, v in vector.outputs.items()},
    }


def _encoded_expect(vector: Vector, listed: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(vector.expect, ExpectedError):
        first, *others = (
            {"code": code, "field": field}
            for code, field in (vector.expect[:2], *vector.expect.also)
        )
        return {"error": {**first, **({"also": others} if others else {})}}
    found = {}
    for name, own in vector.expect.items():
        value: dict[str, Any] = {"dtype": own.dtype, "sizes": [*own.sizes], "compare": own.compare}
        value |= {"rows": own.rows} if own.compare == "exact_rows" else {}
        value |= {"listed": listed[name]} if name in listed else {}
        if len(own.words) > LONGEST and own.compare != "exact_or_listed":
            value["sha256"] = tensors.digest(Tensor(own.dtype, (len(own.words),), own.words))
        else:
            value |= tensors.encode_words(own.dtype, own.words)
        found[name] = value
    return {"outputs": found}


def next_version() -> str:
    """Return the version that new vectors are in: the next minor one of the package."""
    major, minor, _ = __version__.split(".")
    return f"{major}.{int(minor) + 1}.0"


def _problems(texts: Mapping[Path, str], folder: Path, operators: set[str]) -> Iterator[str]:
    """Verify the operators with the new files, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as name:
        for operator in operators:
            if (folder / operator).exists():
                shutil.copytree(folder / operator, Path(name, operator))
        write({Path(name, path.relative_to(folder)): text for path, text in texts.items()})
        for operator in operators:
            for line in verify.report(Path(name), operator).problems:
                if line.startswith(name):
                    yield line.replace(name, str(folder))


def gains(added: Added) -> Iterator[str]:
    """Say which clauses, equivalence classes and boundary cases the new vectors alone cover."""
    for operator in dict.fromkeys(vector.operator for vector in added.vectors):
        new, old = ([v for v in each if v.operator == operator] for each in added[:2])
        known = set(_covers(operator, old))
        yield from (f"{operator}: {line}" for line in _covers(operator, new) if line not in known)


def _covers(operator: str, suite: Sequence[Vector]) -> Iterator[str]:
    """Say what vectors of an operator cover."""
    for vector in suite:
        kind = "keeps" if vector.is_valid else "breaks"
        yield from (f"{kind} the clause {clause}" for clause in vector.clause)
    yield from (f"has {name!r}" for name in sorted(registry.covered(operator, suite)))
    for name, number in boundary.counts_of(operator, suite).items():
        if number:
            yield f"is at the boundary case {name!r}"
