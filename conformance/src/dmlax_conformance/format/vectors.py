"""Finding, reading and checking vector files."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Malformed, NotStartable, WrongUsage, in_file
from ..paths import schema_file, vectors_dir
from ..texts import printable
from . import json_schema, layout, limits, tensors
from .json_schema import Validator, pointer
from .tensors import Tensor


class Request(NamedTuple):
    """The output that a caller asks for."""

    dtype: str
    sizes: tuple[int, ...]


class Signature(NamedTuple):
    """Names of an operator's vectors and their JSON types; None is a tensor that may be missing."""

    inputs: Mapping[str, type | None]
    outputs: Mapping[str, type | None]
    attributes: Mapping[str, type | None]
    desc: Mapping[str, type | None]  # empty for a function that DirectML lacks
    options: frozenset[str] = frozenset()  # attributes that may be missing


SIGNATURES: dict[str, Signature] = {}  # the oracle's registry fills it, by operator


class Listed(NamedTuple):
    """Words that are also permitted at one element, and why."""

    any_of: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class ExpectedTensor:
    """An output to match; `words` stop after `rows` rows in the mode `exact_rows`.

    One with a digest has no words: an oracle has to make them.
    """

    dtype: str
    sizes: tuple[int, ...]
    words: tuple[int, ...]
    compare: str
    listed: Mapping[int, Listed]
    sha256: str = ""
    rows: int = 0  # a digest covers these rows in the mode `exact_rows`


class ExpectedError(NamedTuple):
    """A refusal to match, and those that follow from the same mistake."""

    code: str
    field: str
    also: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Vector:
    """One case, decoded; its answer counts only with a right one to `paired_with`."""

    id: str
    rev: int
    operator: str
    topic: str
    comment: str
    clause: tuple[str, ...]
    flags: frozenset[str]
    requires: frozenset[str]
    base: str | None
    attributes: Mapping[str, Any]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Request]
    expect: Mapping[str, ExpectedTensor] | ExpectedError
    file: Path
    desc: Mapping[str, Any] | None = None
    feature_level: str | None = None
    paired_with: "Vector | None" = None
    after: str | None = None  # the vector of this file that runs right before it
    memory: int = 0  # bytes that a machine needs for it, where that is more than a little

    @property
    def is_valid(self) -> bool:
        """True if the call keeps every rule."""
        return not isinstance(self.expect, ExpectedError)

    @property
    def has_digests(self) -> bool:
        """True if outputs are expected by their digests."""
        return not isinstance(self.expect, ExpectedError) and any(
            tensor.sha256 for tensor in self.expect.values()
        )


def find(root: Path | None = None) -> list[Path]:
    """Return all vector files, sorted; none of them leads out of the folder."""
    return limits.find_inside(root or vectors_dir(), "*/**/*.json")


def load_all(root: Path | None = None, operators: Collection[str] = ()) -> list[Vector]:
    """Return every vector, or those in the folders of some operators."""
    folder = root or vectors_dir()
    paths = [
        path
        for path in find(root)
        if not operators or path.relative_to(folder).parts[0] in operators
    ]
    suite = [vector for path in paths for vector in load(path)]
    _check_ids(suite)
    return suite


def selected(options: Any) -> list[Vector]:
    """Return the vectors that a command's options choose; raise `WrongUsage` at unknown names."""
    return [vector for vector, why in divided(options) if not why]


def divided(options: Any) -> list[tuple[Vector, str]]:
    """Return the vectors that options ask for, and why they leave one out, or no reason."""
    _check_known("operator", options.operator, SIGNATURES)
    suite = load_all(options.vectors, options.operator or ())
    _check_known("id", options.id, (vector.id for vector in suite))
    there = {flag for vector in suite for flag in vector.flags}
    for option, names in (("flag", options.flag), ("without-flag", options.without_flag)):
        if not {*(names or ())} <= there:  # other vectors may have a flag that these lack
            there.update(flag for vector in load_all() for flag in vector.flags)
            _check_known(option, names, there)
    wanted = (options.operator, options.id, options.flag)
    return [(each, _why_not(each, options)) for each in suite if matches(each, *wanted)]


def _why_not(vector: Vector, options: Any) -> str:
    """Return why options leave a vector out, or nothing."""
    unwanted = sorted(vector.flags.intersection(options.without_flag or ()))
    if unwanted:
        return f"with the flag {unwanted[0]}"
    return "that have to be refused" if options.valid_only and not vector.is_valid else ""


def _check_known(what: str, names: Collection[str] | None, known: Iterable[str]) -> None:
    """Raise `WrongUsage` at a name that is unknown, with the nearest one that is known."""
    there = {*known} if names else {*()}
    for name in sorted({*(names or ())} - there):
        raise WrongUsage(f"--{what} {name}: no vector has it{hint(name, there)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a complaint about an unknown name: the nearest that is known."""
    nearest = get_close_matches(name, [*known], 1, 0)
    return f"; the nearest is {nearest[0]}" if nearest else ""


def _check_ids(suite: Iterable[Vector]) -> None:
    places: dict[str, str] = {}
    numbers: Counter[Path] = Counter()
    for vector in suite:
        at = pointer("vectors", numbers[vector.file], "id")
        numbers[vector.file] += 1
        if vector.id in places:
            message = f"{vector.id} is also the id at {places[vector.id]}"
            raise Malformed(at, message, str(vector.file))
        places[vector.id] = f"{vector.file}:{at}"


def matches(
    vector: Vector,
    operators: Collection[str] | None,
    ids: Collection[str] | None,
    flags: Collection[str] | None,
) -> bool:
    """Return whether a vector is among those asked for; nothing asked for is everything."""
    pairs = ((operators, {vector.operator}), (ids, {vector.id}), (flags, vector.flags))
    return all(not wanted or not names.isdisjoint(wanted) for wanted, names in pairs)


def load(path: Path) -> list[Vector]:
    """Return the vectors of one file, or raise `Malformed` naming file and position."""
    with in_file(path):
        text = limits.read(path)
        file = parse(text)
        if not json_schema.is_own(path):  # verified before every release
            check(file)
        if "\\" in text or not text.replace("\n", "").isprintable():
            _check_strings(file)
        _check_legends(file)
        file["vectors"] = completed(file["vectors"])
        _check_names(file)
        suite = [
            _vector(file, value, path, pointer("vectors", index))
            for index, value in enumerate(file["vectors"])
        ]
        return _linked(file, suite)


PARTS = ("attributes", "inputs", "outputs", "desc")


def completed(written: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the vectors of a file, each partial one with what it has in common with its twin."""
    values = list(written)
    whole = {value["id"]: value for value in values if "partial" not in value}
    return [_completed(value, whole, index) for index, value in enumerate(values)]


def _completed(
    value: Mapping[str, Any], whole: Mapping[str, Mapping[str, Any]], index: int
) -> Mapping[str, Any]:
    if "partial" not in value:
        return value
    if value["twin"] not in whole:
        raise Malformed(pointer("vectors", index, "twin"), "is no whole vector of this file")
    base = whole[value["twin"]]
    if ("desc" in value) != ("desc" in base):
        raise Malformed(pointer("vectors", index, "twin"), "is a call, or a desc; this is not")
    if "desc" in value:
        base = {**base, "attributes": {}, "inputs": {}, "outputs": {}}
    parts = {part: {**base[part], **value.get(part, {})} for part in PARTS if part in base}
    return {**{key: own for key, own in value.items() if key != "partial"}, **parts}


def parse(text: str) -> Any:
    """Return the JSON value, refusing duplicate keys, NaN tokens, and depth.

    A decimal becomes a `Decimal`, which is no kind of value in any schema here.
    """
    limits.check_text(text)
    hooks = {"object_pairs_hook": _unique, "parse_constant": _refuse, "parse_float": Decimal}
    try:
        return json.loads(text, **hooks)  # type: ignore[arg-type]
    except NoJsonError:
        limits.check_tokens(text)
        raise
    except json.JSONDecodeError as error:
        raise Malformed(f"{error.lineno}:{error.colno}", error.msg) from None


def check(file: Any) -> None:
    """Raise `Malformed` at the first place of a file that breaks the schema."""
    _validator().check(file)


@cache
def _validator() -> Validator:
    return Validator(json.loads(schema_file().read_text(encoding="utf-8")))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _refuse("a key that is there twice")


def _refuse(token: str) -> Any:
    raise NoJsonError(token)


class NoJsonError(ValueError):
    """Refuses the constants and repeated keys that Python reads and JSON does not define."""


def _check_strings(value: Any, *at: object) -> None:
    """Raise `Malformed` at a text with control characters, or with half of a character."""
    if isinstance(value, str) and not value.isprintable():
        wrong = next(character for character in value if not character.isprintable())
        raise Malformed(pointer(*at), f"{printable(wrong)} is not to be printed")
    if isinstance(value, dict):
        for key, own in value.items():
            _check_strings(key, *at)
            _check_strings(own, *at, key)
    if isinstance(value, list):
        for index, own in enumerate(value):
            _check_strings(own, *at, index)


def _check_legends(file: Mapping[str, Any]) -> None:
    """Raise `Malformed` at a clause or flag that the file does not explain."""
    for index, vector in enumerate(file["vectors"]):
        for key, legend in (("clause", "clauses"), ("flags", "notes")):
            for word in vector[key]:
                if word not in file[legend]:
                    message = f"{word} is not explained in {legend}"
                    raise Malformed(pointer("vectors", index, key), message)


def _check_names(file: Mapping[str, Any]) -> None:
    """Raise `Malformed` at an operator or a name that the registry lacks."""
    if not SIGNATURES:
        raise NotStartable("no operator is known until dmlax_conformance.oracle is imported")
    if file["operator"] not in SIGNATURES:
        raise Malformed("/operator", f"{file['operator']!r} is not one of {', '.join(SIGNATURES)}")
    for index, vector in enumerate(file["vectors"]):
        for part, known in SIGNATURES[file["operator"]]._asdict().items():
            if part in vector:
                _check_members(vector[part], known, pointer("vectors", index, part))
                needed = {k for k in known if part == "desc" or known[k] is not None}
                needed -= SIGNATURES[file["operator"]].options
                missing = sorted(needed - vector[part].keys())
                if missing and (part == "desc" or "desc" not in vector):
                    raise Malformed(pointer("vectors", index, part), f"has no {missing[0]}")


def _check_members(value: Mapping[str, Any], known: Mapping[str, type | None], at: str) -> None:
    """Raise `Malformed` at an unknown name, or a value of another type."""
    for name, member in value.items():
        if name not in known:
            raise Malformed(at, f"{name} is not one of {', '.join(known) or 'none'}")
        kind = known[name]
        if not (isinstance(member, dict | None) if kind is None else type(member) is kind):
            raise Malformed(f"{at}/{name}", f"{member!r} is of another type")


def _linked(file: Mapping[str, Any], suite: list[Vector]) -> list[Vector]:
    """Give each vector the one with which it counts."""
    known = {vector.id: vector for vector in suite}
    names = [value.get("beside") for value in file["vectors"]]
    for index, name in enumerate(names):
        if name is not None and (name not in known or name == suite[index].id):
            what = "is the vector itself" if name in known else "is no vector of this file"
            raise Malformed(pointer("vectors", index, "beside"), f"{name} {what}")
    pairs = zip(suite, names, strict=True)
    return [replace(one, paired_with=known[name]) if name else one for one, name in pairs]


def _vector(file: Mapping[str, Any], value: Mapping[str, Any], path: Path, at: str) -> Vector:
    outputs = {k: Request(v["dtype"], tuple(v["sizes"])) for k, v in value["outputs"].items()}
    for name, asked in outputs.items():
        limits.check_sizes(asked.sizes, f"{at}/outputs/{name}/sizes")
    inputs = {k: tensors.decode(v, f"{at}/inputs/{k}") for k, v in value["inputs"].items()}
    if "desc" in value and "outputs" in value["expect"]:
        _check_desc(value["desc"], inputs, outputs, at)
    return Vector(
        id=value["id"],
        rev=value["rev"],
        operator=file["operator"],
        topic=file["topic"],
        comment=value["comment"],
        clause=tuple(value["clause"]),
        flags=frozenset(value["flags"]),
        requires=frozenset(value["requires"]),
        base=value.get("twin"),
        attributes=value["attributes"],
        inputs=inputs,
        outputs=outputs,
        expect=_expect(value["expect"], outputs, f"{at}/expect"),
        file=path,
        desc=value.get("desc"),
        feature_level=value.get("feature_level"),
        memory=value.get("memory", 0),
        after=value.get("after"),
    )


def _check_desc(
    desc: Mapping[str, Any], inputs: Mapping[str, Tensor], outputs: Mapping[str, Request], at: str
) -> None:
    """Raise `Malformed` if the tensors of a valid vector are not those of its desc."""
    named = {name for name, value in desc.items() if isinstance(value, dict)}
    tensors: Mapping[str, Tensor | Request] = {**inputs, **outputs}
    for name in sorted(named ^ tensors.keys()):
        raise Malformed(f"{at}/desc/{name}", "is there, and its tensor is not, or the reverse")
    for name, tensor in tensors.items():
        if tensor.dtype.upper() != desc[name]["DataType"]:
            raise Malformed(f"{at}/desc/{name}", f"has not the data type {tensor.dtype}")
        part, sizes = "inputs", layout.array_sizes(desc[name])
        limits.check_sizes(sizes, f"{at}/desc/{name}")
        if name in outputs:
            part, sizes = "outputs", tuple(desc[name]["Sizes"])
        if tensor.sizes != sizes:
            raise Malformed(f"{at}/{part}/{name}", "has not the sizes of the desc")


def _expect(
    value: Mapping[str, Any], outputs: Mapping[str, Request], at: str
) -> Mapping[str, ExpectedTensor] | ExpectedError:
    if "error" in value:
        error = value["error"]
        also = tuple((item["code"], item["field"]) for item in error.get("also", ()))
        return ExpectedError(error["code"], error["field"], also)
    expected = {k: _expected(v, f"{at}/outputs/{k}") for k, v in value["outputs"].items()}
    for name in sorted(expected.keys() | outputs.keys()):
        have = expected.get(name)
        if have is None or outputs.get(name) != (have.dtype, have.sizes):
            raise Malformed(f"{at}/outputs/{name}", "differs from what the vector asks for")
    return expected


def _expected(value: Mapping[str, Any], at: str) -> ExpectedTensor:
    sizes = tuple(value["sizes"])
    kept = (value["rows"], sizes[-1]) if "rows" in value else sizes
    if tensors.count(kept) > tensors.count(sizes):
        raise Malformed(f"{at}/rows", f"{value['rows']} rows are more than there are")
    if "sha256" in value:
        digest, rows = value["sha256"], value.get("rows", 0)
        return ExpectedTensor(value["dtype"], sizes, (), value["compare"], {}, digest, rows)
    words = (
        tensors.decode(value, at).words if "recipe" in value else tensors.decode_words(value, at)
    )
    if len(words) != tensors.count(kept):
        raise Malformed(at, f"{len(words)} elements where {tensors.count(kept)} are needed")
    return ExpectedTensor(
        value["dtype"], sizes, words, value["compare"], _listed(value, len(words), at)
    )


def _listed(value: Mapping[str, Any], length: int, at: str) -> dict[int, Listed]:
    listed = {}
    for number, item in enumerate(value.get("listed", [])):
        place = f"{at}/listed/{number}"
        if item["index"] >= length:
            raise Malformed(place, f"index {item['index']} is past the last element")
        any_of = (
            tensors.decode_word(value["dtype"], word, f"{place}/any_of") for word in item["any_of"]
        )
        listed[item["index"]] = Listed(tuple(any_of), item["why"])
    return listed
