"""Putting vectors together: the author gives the call, the oracle gives the expectation."""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import lcm, prod
from typing import Any, Generic, TypeVar

from ..errors import SpecViolation
from ..format import canonical, recipe, tensors, vectors
from ..format.recipe import Cycle
from ..format.tensors import Tensor
from ..format.vectors import Request
from . import OPERATORS
from .answer import answer
from .clauses import CLAUSES, NOTES

Inputs = Mapping[str, Tensor]
Listed = Mapping[int, tuple[tuple[int, ...], str]]
Words = tuple[str, ...]

TENSORS_ON_LINES = canonical.Layout(("DataType", "dtype"), ("attributes",))
SHORT_CYCLE = 64  # elements that repeat, and are written out
LEAST_OF_DIGEST = 64  # elements; as many or fewer are written out
REVISIONS: dict[str, int] = {  # by id, once an expectation has changed
    "dequantize-plus-zero": 2,
    "qconv-desc-strides-shared-windows": 2,
    "qconv-desc-strides-shared-channels": 2,
    "qconv-desc-strides-shared-batch": 2,
}
PREFIXES = {name: f"{operator.prefix}-" for name, operator in OPERATORS.items()}


class Topic:
    """One file of vectors; every id starts with the prefix of its operator."""

    def __init__(self, operator: str, topic: str) -> None:
        """Start an empty file."""
        self.operator, self.topic, self.prefix = operator, topic, PREFIXES[operator]
        self.is_written_out = is_written_out(operator, topic)
        self.has_digests = not self.is_written_out  # instead of the elements of large outputs
        self.has_input_digests = self.is_written_out  # of what recipes make
        self._vectors: list[dict[str, Any]] = []
        self._calls: dict[str, tuple[Mapping[str, Any], Inputs, Mapping[str, Request]]] = {}

    def valid(
        self,
        name: str,
        comment: str,
        clause: str,
        inputs: Inputs,
        outputs: Mapping[str, Request],
        attributes: Mapping[str, Any] | None = None,
        flags: str = "",
        requires: str = "",
        listed: Listed | None = None,
        paired_with: str | None = None,
        memory: int = 0,
    ) -> None:
        """Add a call that keeps every rule; words in strings are separated by spaces.

        One that zeros answer rightly counts only with another of the file, `paired_with`.
        """
        self._calls[name] = attributes or {}, inputs, outputs
        results = answer(self.operator, *self._calls[name])
        assert all(results[k].sizes == asked.sizes for k, asked in outputs.items()), name
        expect = {name: expected(name, results, inputs, listed or {}) for name in results}
        if self.has_digests:
            expect = {name: digested(expect[name], results[name]) for name in results}
        vector = self._add_call(name, comment, clause, flags, requires, {"outputs": expect})
        vector |= {"beside": self.prefix + paired_with} if paired_with else {}
        vector |= {"memory": memory} if memory else {}

    def invalid(
        self,
        name: str,
        comment: str,
        clause: str,
        base: str,
        code: str,
        changed: Mapping[str, Any],
        flags: str = "Invalid",
        requires: str = "",
    ) -> None:
        """Add a call with other attributes, tensors or outputs than its base, which earn this code.

        The field to blame is the one that changes, unless it stands after the code.
        """
        code, _, field = code.partition(" ")
        kinds = (object, Tensor, Request)
        given, inputs, outputs = (
            {**old, **{k: v for k, v in changed.items() if _kind(v) is kind}}
            for old, kind in zip(self._calls[base], kinds, strict=True)
        )
        self._calls[name], error = (given, inputs, outputs), (code, field or next(iter(changed)))
        found = ("nothing", "")
        try:
            answer(self.operator, *self._calls[name])
        except SpecViolation as violation:
            found = violation.code, violation.field
        assert found == error, f"{name}: the rules find {found}"
        expect = {"error": dict(zip(("code", "field"), error, strict=True))}
        vector = self._add_call(name, comment, clause, flags, requires, expect)
        vector["twin"] = self.prefix + base
        self._leave_out(vector, changed)

    def _leave_out(self, vector: dict[str, Any], changed: Mapping[str, Any]) -> None:
        """Leave out what a refused vector has in common with its twin."""
        if self.is_written_out:
            return
        for part in vectors.PARTS:
            own = {name: each for name, each in vector.pop(part, {}).items() if name in changed}
            vector |= {part: own} if own else {}
        vector["partial"] = True

    def wrong(
        self,
        base: str,
        code: str,
        clause: str,
        text: str,
        cases: Mapping[str, tuple[str, Any]],
        names: str = "",
    ) -> None:
        """Change one field of the base after the other: fields and values by name."""
        for name in names.split() or cases:
            field, own = cases[name]
            words, need = {"field": field, "value": own}, ""
            if isinstance(own, Tensor):
                need = "dtype:float64" if own.dtype == "float64" else ""
                words |= {"dtype": own.dtype, "sizes": [*own.sizes], "rank": len(own.sizes)}
            comment = text.format(**words)
            self.invalid(name, comment, clause, base, code, {field: own}, requires=need)

    def shorten(self, name: str, output: str, rows: int) -> None:
        """Keep only the first rows of a table, of which a file cannot hold all."""
        (vector,) = (v for v in self._vectors if v["id"] == self.prefix + name)
        value = vector["expect"]["outputs"][output]
        value |= {"rows": rows, "data": value["data"][: rows * value["sizes"][-1]]}

    def pair_zeros(self) -> None:
        """Let what zeros answer count beside the first vector of the file that they do not."""
        zeros = [vector for vector in self._vectors if all(map(_is_zero, _outputs(vector)))]
        other = next(each["id"] for each in self._vectors if each not in zeros)
        for vector in zeros:
            vector["beside"] = other

    def leave_open(self, name: str) -> None:
        """Leave every element of every output open."""
        (vector,) = (v for v in self._vectors if v["id"] == self.prefix + name)
        for value in vector["expect"]["outputs"].values():
            key = "bits" if "bits" in value else "data"
            value |= {"compare": "exact_rows", "rows": 0, key: []}

    def file(self) -> dict[str, Any]:
        """Return the whole file as JSON."""
        clauses = {name for vector in self._vectors for name in vector["clause"]}
        notes = {name for vector in self._vectors for name in vector["flags"]}
        return {
            "schema": "vectors-1",
            "operator": self.operator,
            "topic": self.topic,
            "source": OPERATORS[self.operator].source,
            "clauses": {name: CLAUSES[name] for name in clauses},
            "notes": {name: NOTES[name] for name in notes},
            "vectors": self._vectors,
        }

    def _add_call(
        self, name: str, comment: str, clause: str, flags: str, requires: str, expect: Any
    ) -> dict[str, Any]:
        attributes, inputs, outputs = self._calls[name]
        vector = self._add(name, comment, clause, flags, requires.split())
        vector["attributes"], vector["expect"] = dict(attributes), expect
        vector["inputs"] = {k: tensors.encode(v) for k, v in inputs.items()}
        if not self.has_input_digests:
            for value in vector["inputs"].values():
                value.pop("sha256", None)
        vector["outputs"] = {k: {"dtype": v[0], "sizes": [*v[1]]} for k, v in outputs.items()}
        return vector

    def _add(
        self, name: str, comment: str, clause: str, flags: str, requires: Iterable[str]
    ) -> dict[str, Any]:
        """Add what every vector has, and return it."""
        whole = self.prefix + name
        vector: dict[str, Any] = {"id": whole, "rev": REVISIONS.get(whole, 1), "comment": comment}
        vector |= {"clause": clause.split(), "flags": flags.split(), "requires": sorted(requires)}
        self._vectors.append(vector)
        return vector


def text_of(file: Mapping[str, Any]) -> str:
    """Return the text of a file, in which tensors and attributes are lines unless it is older."""
    if is_written_out(file["operator"], file["topic"]):
        return canonical.dumps(file)
    return canonical.dumps(file, TENSORS_ON_LINES)


def is_written_out(operator: str, topic: str) -> bool:
    """Return whether a file is of an older operator, and no newer than that."""
    return OPERATORS[operator].is_written_out and not topic.startswith("corner")


def _kind(value: Any) -> type:
    return type(value) if isinstance(value, Tensor | Request) else object


T = TypeVar("T", bound=Topic)


class Files(Generic[T]):
    """The files of one module: functions that fill a topic each."""

    def __init__(self, operator: str, kind: Callable[[str, str], T]) -> None:
        """Begin without a file."""
        self._operator, self._kind = operator, kind
        self._fill: dict[str, Callable[[T], None]] = {}

    def file(self, topic: str) -> Callable[[Callable[[T], None]], None]:
        """Register the decorated function, which fills the topic."""
        assert topic not in self._fill, topic
        return partial(self._fill.__setitem__, topic)

    def __call__(self) -> Iterator[T]:
        """Yield the filled topics."""
        for name, fill in self._fill.items():
            topic = self._kind(self._operator, name)
            fill(topic)
            yield topic


def expected(
    name: str, results: Mapping[str, Tensor], inputs: Inputs, listed: Listed
) -> dict[str, Any]:
    """Return the JSON of an output to match; of coordinates only as many rows as are counted."""
    if name == "OutputCoordinatesTensor":
        return _expected_rows(results[name], results["OutputCountTensor"].words[0])
    tensor = _as_cycle(results[name], inputs)
    value = {**tensors.encode(tensor), "compare": "exact_or_listed" if listed else "exact"}
    if listed:
        value["listed"] = [
            {"index": index, "any_of": list(any_of), "why": why}
            for index, (any_of, why) in listed.items()
        ]
    return value


def _outputs(vector: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = vector["expect"]["outputs"]
    return found.values()


def _is_zero(value: Mapping[str, Any]) -> bool:
    """Return whether zeros are the elements of an expected tensor."""
    if "sha256" not in value:
        words = {**value, **value.get("recipe", {})}
        return all(int(str(word), 16) == 0 for word in words["data" if "data" in words else "bits"])
    count = value["rows"] * value["sizes"][-1] if "rows" in value else prod(value["sizes"])
    zeros = Tensor(value["dtype"], (count,), (0,) * count)
    return bool(value["sha256"] == tensors.digest(zeros))


def digested(value: dict[str, Any], tensor: Tensor) -> dict[str, Any]:
    """Return the JSON of an output with a digest of its elements, if they are many."""
    count = value.get("rows", 0) * tensor.sizes[-1] if "rows" in value else prod(tensor.sizes)
    cycle = value.get("recipe", {})
    is_short = bool(cycle) and len(cycle.get("data") or cycle["bits"]) <= SHORT_CYCLE
    if count <= LEAST_OF_DIGEST or is_short or value["compare"] == "exact_or_listed":
        return value
    words = tensor.words[:count]
    kept = {key: own for key, own in value.items() if key not in ("data", "bits", "recipe")}
    return kept | {"sha256": tensors.digest(Tensor(tensor.dtype, (count,), words))}


def _as_cycle(tensor: Tensor, inputs: Inputs) -> Tensor:
    """Return an output that repeats as the inputs do by its cycle."""
    lengths = {len(x.made_by.words) for x in inputs.values() if isinstance(x.made_by, Cycle)}
    if not lengths:
        return tensor
    made = tensors.from_recipe(tensor.dtype, tensor.sizes, Cycle(tensor.words[: lcm(*lengths)]))
    return made if made.words == tensor.words else tensor


def _expected_rows(tensor: Tensor, rows: int) -> dict[str, Any]:
    kept = tensors.encode_words(tensor.dtype, tensor.words[: rows * tensor.sizes[-1]])
    head = {"dtype": tensor.dtype, "sizes": list(tensor.sizes)}
    return {**head, "compare": "exact_rows", "rows": rows, **kept}


def ints(dtype: str, sizes: Iterable[int], values: Iterable[int]) -> Tensor:
    """Return a tensor of integers, or of the bit patterns of floats."""
    tensor = Tensor(dtype, tuple(sizes), tuple(values))
    low, high = tensors.DTYPES[dtype].low, tensors.DTYPES[dtype].high
    assert len(tensor.words) == prod(tensor.sizes), tensor
    assert all(low <= word <= high for word in tensor.words), tensor
    return tensor


bits = ints


def floats(dtype: str, sizes: Iterable[int], values: Iterable[float]) -> Tensor:
    """Return a float tensor of values that are exact in the dtype."""
    code = {"float16": "e", "float32": "f", "float64": "d"}[dtype]
    raw = (struct.pack(f">{code}", value) for value in values)
    return bits(dtype, sizes, (int.from_bytes(each, "big") for each in raw))


def drawn(
    dtype: str, sizes: Iterable[int], seed: int, low: int, high: int, one_in: int = 1
) -> Tensor:
    """Return drawn integers, written out in the file."""
    shape = tuple(sizes)
    return Tensor(dtype, shape, recipe.expand(recipe.Recipe(seed, low, high, one_in), prod(shape)))
