"""The parts of an operator, and the rules of calls and descs that several families share.

A family's module has a `Definition` for each of its operators; the registry gives it a name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import SpecViolation
from ..format.tensors import Tensor
from ..format.vectors import Request, Signature
from . import exact, fixed_point

Attributes = Mapping[str, Any]
Inputs = Mapping[str, Tensor]
Outputs = Mapping[str, Request]
Answer = dict[str, Tensor]
Desc = Mapping[str, Any]
Sizes = tuple[int, ...]
DescSizes = Mapping[str, Sizes]
Rule = Callable[[Attributes, Inputs, Outputs], None]

LEVELS = (
    *("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1"),
    *("5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"),
)
FLOATS = "FLOAT32 FLOAT16"
WHOLE = "INT32 INT16 INT8 UINT32 UINT16 UINT8"
BYTES = "INT8 UINT8"
EIGHT_BIT = ("int8", "uint8")
INTEGERS = tuple(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32))
UINT_MAX = 2**32 - 1
MOST_DIMENSIONS = 8  # every table's highest rank


class Row(NamedTuple):
    """One line of a "Tensor support" table."""

    tensor: str
    kind: str
    lowest: int
    highest: int
    data_types: frozenset[str]

    @property
    def is_optional(self) -> bool:
        """True if the tensor may be absent."""
        return self.kind.startswith("optional")

    @property
    def is_output(self) -> bool:
        """True if the operator writes the tensor."""
        return self.kind.endswith("output")


Rows = tuple[Row, ...]
Tables = Mapping[str, Rows]


class Violation(NamedTuple):
    """A rule that is broken, its code, and the field to blame."""

    rule: str
    code: str
    field: str


Found = Iterator[Violation]


def row(tensor: str, kind: str, lowest: int, highest: int, data_types: str) -> Row:
    """Return a line of a table from names that spaces separate."""
    return Row(tensor, kind, lowest, highest, frozenset(data_types.split()))


def quantized_rows(
    name: str, counts: tuple[int, int], scale: tuple[int, int], point: tuple[int, int]
) -> Rows:
    """Return the lines of a quantized tensor, its scale and its zero point; an output is last."""
    tensor = row(f"{name}Tensor", "output" if name == "Output" else "input", *counts, BYTES)
    scale_row = row(f"{name}ScaleTensor", "input", *scale, "FLOAT32")
    point_row = row(f"{name}ZeroPointTensor", "optional", *point, BYTES)
    parameters = scale_row, point_row
    return (*parameters, tensor) if name == "Output" else (tensor, *parameters)


def integer_rows(lowest: int, **points: int) -> Rows:
    """Return the lines of operands, their zero points and INT32 sums, of 4 dimensions at most.

    `lowest` is the least DimensionCount of a tensor, `points` has that of each zero point.
    """
    found: list[Row] = []
    for name, least in points.items():
        found += [row(f"{name}Tensor", "input", lowest, 4, BYTES)]
        found += [row(f"{name}ZeroPointTensor", "optional", least, 4, BYTES)]
    return (*found, row("OutputTensor", "output", lowest, 4, "INT32"))


def dashed(name: str) -> str:
    """Return a feature level, or the name of a tensor or attribute, as it is part of an id."""
    words = (f"-{c.lower()}" if c.isupper() else c for c in name.removesuffix("Tensor"))
    return "".join(words).lstrip("-").replace("_", "-")


def read_clauses(text: str) -> dict[str, tuple[str, str]]:
    """Return each clause of a text, and in front why no call breaks it, by name.

    A clause begins a line with its name and a colon; indented lines go on. In brackets stands why
    no call breaks it: it says what the `result` is, the page leaves it `open`, or it says what an
    `absent` tensor means.
    """
    found = re.findall(r"^(\S+?)(?: \((\w+)\))?: ((?:.+\n)(?: .+\n)*)", text, re.MULTILINE)
    return {name: (why, " ".join(words.split())) for name, why, words in found}


@dataclass(frozen=True)
class Definition:
    """An operator as its page describes it: formula, rules, support tables and clauses.

    `tables` holds DirectML's table at every feature level that changed it. A function that DirectML
    lacks has `rows`, the tensors of its calls, and no rules of descs. `check_desc` and
    `desc_clauses` name rules without the operator's prefix. `desc_sizes` returns the sizes that
    tensors have in a desc and not in a call. `attributes` are in the order of the desc; calls have
    no DimensionCount.
    """

    compute: Callable[[Attributes, Inputs, Outputs], Answer]
    check: Rule
    clauses: str  # the clauses of calls, as `read_clauses` takes them
    tables: Tables = field(default_factory=dict)
    rows: Rows = ()
    desc_clauses: Mapping[str, str] = field(default_factory=dict)
    check_desc: Callable[[Desc, str], Found] = lambda desc, feature_level: iter(())
    desc_sizes: Callable[[Inputs, Outputs], DescSizes] = lambda inputs, outputs: {}
    attributes: dict[str, type] = field(default_factory=dict)  # `list`s are of integers
    only_in_calls: tuple[str, ...] = ()  # optional tensors of calls that no desc has
    requantizations: tuple[str, ...] = ()  # modes that calls may name
    struct: str = ""  # the newest version of DirectML's struct, if its name is not the operator's


class Operator:
    """A registry entry: an operator's names, and what its definition says.

    `prefix` begins the ids of vectors and the names of desc rules. `onnx` is the type of the node,
    ONNX's or ONNX Runtime's, that computes the same, if there is one.
    """

    def __init__(self, name: str, prefix: str, definition: Definition, onnx: str = "") -> None:
        """Give a definition its names."""
        self.name, self.prefix, self.onnx = name, prefix, onnx
        self.definition = definition
        self.struct = definition.struct or name.upper()
        # The attributes of descs.
        self.attributes = tuple(definition.attributes) if definition.tables else ()
        self.only_in_calls = definition.only_in_calls
        self.compute = definition.compute
        clauses = read_clauses(definition.clauses).items()
        self.clauses = {name: text for name, (_, text) in clauses}
        self.unbreakable = {name: why for name, (why, _) in clauses if why}
        self.tables, self.desc_clauses = definition.tables, definition.desc_clauses
        self.desc_sizes = definition.desc_sizes
        self.tensors: Rows = [*self.tables.values()][-1] if self.tables else definition.rows

    @property
    def source(self) -> str:
        """The struct that the vectors are about."""
        return f"DML_{self.struct}_OPERATOR_DESC" if self.tables else "beyond DirectML"

    @property
    def signature(self) -> Signature:
        """The names that a vector file uses."""
        options = self.definition.attributes
        kinds: dict[str, type | None] = {
            row.tensor: None if row.is_optional else dict for row in self.tensors
        }
        inputs = {row.tensor: kinds[row.tensor] for row in self.tensors if not row.is_output}
        inputs |= dict.fromkeys(self.only_in_calls)
        outputs = {row.tensor: kinds[row.tensor] for row in self.tensors if row.is_output}
        attributes = {name: kind for name, kind in options.items() if name != "DimensionCount"}
        taken: tuple[str, ...] = (fixed_point.FIELD,) if self.definition.requantizations else ()
        optional: dict[str, type] = dict.fromkeys(taken, str)
        desc = {**dict.fromkeys(kinds), **options} if self.tables else {}
        return Signature(inputs, outputs, attributes | optional, desc, frozenset(optional))

    def check(self, attributes: Attributes, inputs: Inputs, outputs: Outputs) -> None:
        """Raise `SpecViolation` at the first rule that a call breaks."""
        self.definition.check(attributes, inputs, outputs)
        if fixed_point.FIELD in attributes:
            is_known = attributes[fixed_point.FIELD] in self.definition.requantizations
            need(is_known, "option", fixed_point.FIELD)

    def check_desc(self, desc: Desc, feature_level: str) -> Found:
        """Yield the rules of the operator's page that a desc breaks."""
        for rule, code, name in self.definition.check_desc(desc, feature_level):
            yield Violation(f"{self.prefix}-{rule}", code, name)


def need(condition: bool, code: str, field: str) -> None:
    """Raise unless a rule is kept."""
    if not condition:
        raise SpecViolation(code, field)


def data_type(inputs: Inputs, allowed: Iterable[str], *names: str) -> None:
    """Check the data type of tensors."""
    for name in names:
        need(inputs[name].dtype in allowed, "data_type", name)


def same_data_type(inputs: Inputs, name: str, dtype: str) -> None:
    """Check the data type of a tensor that may be absent."""
    if name in inputs:
        data_type(inputs, (dtype,), name)


def dimensions(inputs: Inputs, name: str, lowest: int = 0) -> None:
    """Check that a tensor has at most eight dimensions, as every table says."""
    count = len(inputs[name].sizes)
    need(lowest <= count <= MOST_DIMENSIONS, "dimension_count", name)


def lengths(inputs: Inputs, allowed: Iterable[int], *names: str) -> None:
    """Allow one value in any shape of ones, or one for each channel on one axis."""
    for name in names:
        sizes = inputs[name].sizes if name in inputs else ()
        long = [size for size in sizes if size != 1]
        is_kept = len(long) <= 1 and (long or [1])[0] in allowed
        need(is_kept or name not in inputs, "sizes", name)


def broadcasts(sizes: Sizes, target: Sizes, name: str) -> None:
    """Check that sizes repeat to the target."""
    need(len(sizes) <= len(target), "sizes", name)
    pairs = zip(reversed(sizes), reversed(target), strict=False)
    need(all(size in (1, wanted) for size, wanted in pairs), "sizes", name)


def repeat(a: Sizes, b: Sizes, name: str) -> None:
    """Check that sizes repeat to each other; they align on the right."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    need(all(x == y or 1 in (x, y) for x, y in pairs), "sizes", name)


def scale_values(inputs: Inputs, *names: str) -> None:
    """Check that every scale is finite and not zero."""
    for name in names:
        for word in inputs[name].words:
            number = exact.decode(word, inputs[name].dtype)
            need(number.kind == "finite" and not number.is_zero, "value", name)


def differing(desc: Desc, names: Iterable[str], key: str, first: str) -> list[str]:
    """Return which of the tensors that are there differ from the first one in one field."""
    one = desc[first]
    there = [name for name in names if desc[name] is not None and one is not None]
    return [name for name in there if desc[name][key] != one[key]]


def same_counts(desc: Desc, *names: str, first: str = "InputTensor") -> Found:
    """Yield a violation for each tensor whose DimensionCount is not the first one's."""
    for name in differing(desc, names, "DimensionCount", first):
        yield Violation("same-dimension-count", "dimension_count", name)


def same_sizes(desc: Desc, *names: str, first: str = "InputTensor") -> Found:
    """Yield a violation for each tensor whose Sizes are not the first one's."""
    for name in differing(desc, names, "Sizes", first):
        yield Violation("same-sizes", "sizes", name)


def same_types(desc: Desc, pairs: Mapping[str, str]) -> Found:
    """Check that tensors have the data types of others, if both are there."""
    for name, other in pairs.items():
        one, two = desc.get(name), desc.get(other)
        if one is not None and two is not None and one["DataType"] != two["DataType"]:
            yield Violation(f"{dashed(name)}-data-type", "data_type", name)


def type_clauses(pairs: Mapping[str, str]) -> dict[str, str]:
    """Return what `same_types` checks, in words."""
    return {f"{dashed(a)}-data-type": f"{a} has the data type of {b}." for a, b in pairs.items()}


def all_ones(desc: Desc, *names: str, rule: str = "") -> Found:
    """Check that tensors, if they are there, have only sizes of 1."""
    for name in names:
        if desc.get(name) is not None and any(size != 1 for size in desc[name]["Sizes"]):
            yield Violation(rule or f"{dashed(name)}-one", "sizes", name)


def one_clauses(names: Iterable[str]) -> dict[str, str]:
    """Return what `all_ones` checks, in words."""
    return {f"{dashed(name)}-one": f"{name} has only sizes of 1." for name in names}
