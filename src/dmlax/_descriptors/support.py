"""Support tables: what each feature level allows of an operator, and the call of its function.

A package lists the levels and rules of an operator; `describe` derives the tables and the call from
the descriptor's fields and from the signature of the public function. Validation, the documents
and the tests of the suite's coverage read the tables.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from itertools import zip_longest
from typing import NamedTuple

from jax import Array

from dmlax._core.arguments import directml_name
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import EIGHT_BITS, F32, DataTypes, FeatureLevel
from dmlax._descriptors.records import python_name
from dmlax._descriptors.rules import Rule

Counts = tuple[int, int]
Tensors = Mapping[str, Array]
Function = Callable[..., Array | tuple[Array, ...]]
REFERENCE = "https://learn.microsoft.com/windows/win32/api/directml/"


class Row(NamedTuple):
    """One row of a page's table.

    Attributes:
      tensor: DirectML's name.
      is_output: True if the operator writes it.
      is_optional: True if it may be absent.
      dimension_counts: the lowest and the highest.
      data_types: the supported ones.
      dimensions: the pattern that the page prints, brackets around what may be left out; None
        where it prints none.
    """

    tensor: str
    is_output: bool
    is_optional: bool
    dimension_counts: Counts
    data_types: DataTypes
    dimensions: str | None

    @property
    def kind(self) -> str:
        """The words of the pages: "Optional input", for example."""
        side = "output" if self.is_output else "input"
        return f"Optional {side}" if self.is_optional else side.capitalize()


class Table(NamedTuple):
    """Rows and rules that hold from one feature level on, until the operator's next table."""

    feature_level: FeatureLevel
    rows: tuple[Row, ...]
    rules: tuple[Rule, ...]


class Level(NamedTuple):
    """A feature level that changes what an operator allows.

    Attributes:
      feature_level: from which on it holds.
      counts: the DimensionCounts of tensors that are neither scales nor zero points.
      parameter_counts: those of scales and zero points.
      data_types: those of a tensor, by DirectML's name. Otherwise a scale is FLOAT32, and any other
        tensor has 8 bits.
      other_counts: the DimensionCounts of a tensor that is an exception, by DirectML's name.
      dimensions: the patterns that the page prints, in the order of the descriptor's tensors.
      required: optional tensors of the descriptor that this level requires.
      rules: those of this level alone.
    """

    feature_level: FeatureLevel
    counts: Counts
    parameter_counts: Counts = (0, 0)
    data_types: Mapping[str, DataTypes] = {}
    other_counts: Mapping[str, Counts] = {}
    dimensions: Sequence[str] = ()
    required: Sequence[str] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Support:
    """DirectML's side of one operator.

    Attributes:
      desc: its descriptor's class.
      page: where DirectML describes it.
      tables: by ascending feature level.
      call: calls the function of `dmlax` with a valid descriptor's options, on logical tensors by
        name; it returns the outputs in DirectML's order.
      why_not: for a valid descriptor, the sentence that says why the function cannot run it.
    """

    desc: type[OperatorDesc]
    page: str
    tables: tuple[Table, ...]
    call: Callable[[OperatorDesc, Tensors], tuple[Array, ...]]
    why_not: Callable[[OperatorDesc], str | None]

    @property
    def introduced(self) -> FeatureLevel:
        """The first feature level that has the operator."""
        return self.tables[0].feature_level

    def at(self, feature_level: FeatureLevel) -> Table:
        """The table that holds at a feature level."""
        return [table for table in self.tables if table.feature_level <= feature_level][-1]


def describe(
    desc: type[OperatorDesc],
    function: Function,
    prefix: str,
    levels: Sequence[Level],
    rules: Sequence[Rule],
    *,
    shape: Callable[[str, Array], Array] = lambda keyword, operand: operand,
    options: Callable[[OperatorDesc], Mapping[str, int]] = lambda desc: {},
    why_not: Callable[[OperatorDesc], str | None] = lambda desc: None,
    reference: str = REFERENCE,
) -> Support:
    """Describes an operator.

    Args:
      desc: its descriptor's class. A field has the name of the function's parameter, with `_tensor`
        after it if it is a tensor.
      function: the public function. A tensor that it has no parameter for is an output.
      prefix: begins the names of the rules, before a hyphen.
      levels: what changes at each feature level, ascending.
      rules: those of all levels, in the order in which they are checked.
      shape: gives an operand of a keyword the shape that the function takes.
      options: keywords of the function that are not fields of the descriptor.
      why_not: says why the function cannot run a valid descriptor.
      reference: the folder of the operator's page.

    Returns:
      The tables, the rules with their full names, and the call.
    """
    page = f"{reference}ns-directml-dml_{python_name(desc.operator)}_operator_desc"

    def complete(rules: Sequence[Rule]) -> tuple[Rule, ...]:
        return tuple(replace(rule, name=f"{prefix}-{rule.name}", page=page) for rule in rules)

    inputs, common = inspect.signature(function).parameters, complete(rules)
    tables = tuple(
        Table(level.feature_level, _rows(desc, level, inputs), (*complete(level.rules), *common))
        for level in levels
    )
    return Support(desc, page, tables, _caller(function, shape, options), why_not)


def tensors_of(desc: type[OperatorDesc]) -> tuple[str, ...]:
    """The names of a descriptor's tensors, in DirectML's order."""
    return tuple(directml_name(field.name) for field in _tensor_fields(desc))


def all_axes(dimensions: Sequence[str]) -> list[str]:
    """Patterns without their brackets, of a level that lets no axis be left out."""
    return [pattern.replace("[", "").replace("]", "") for pattern in dimensions]


def flatten_parameters(keyword: str, operand: Array) -> Array:
    """Gives a parameter of windows one axis, whichever one the desc has it on."""
    return operand if keyword in ("input", "filter") else operand.reshape(-1)


# ---------------------------------------------------------------------------------------


def _keyword(field: str) -> str:
    return field.removesuffix("_tensor")


def _tensor_fields(desc: type[OperatorDesc]) -> list[Field[BufferTensorDesc | None]]:
    return [field for field in fields(desc) if field.name.endswith("_tensor")]


def _rows(desc: type[OperatorDesc], level: Level, inputs: Mapping[str, object]) -> tuple[Row, ...]:
    rows = []
    for field, pattern in zip_longest(_tensor_fields(desc), level.dimensions):
        name, keyword = directml_name(field.name), _keyword(field.name)
        is_parameter = keyword.endswith(("scale", "zero_point"))
        counts = level.parameter_counts if is_parameter else level.counts
        data_types = F32 if keyword.endswith("scale") else EIGHT_BITS
        row = Row(
            name,
            keyword not in inputs,
            field.default is None and name not in level.required,
            level.other_counts.get(name, counts),
            level.data_types.get(name, data_types),
            pattern,
        )
        rows.append(row)
    return tuple(rows)


def _caller(
    function: Function,
    shape: Callable[[str, Array], Array],
    options: Callable[[OperatorDesc], Mapping[str, int]],
) -> Callable[[OperatorDesc, Tensors], tuple[Array, ...]]:
    """The call of the function: the fields of a desc have the names of its parameters."""
    parameters = inspect.signature(function).parameters
    positional = [name for name, item in parameters.items() if item.kind == item.POSITIONAL_ONLY]

    def call(desc: OperatorDesc, tensors: Tensors) -> tuple[Array, ...]:
        operands = {_keyword(name): shape(_keyword(name), x) for name, x in tensors.items()}
        ordered = [operands.pop(name, None) for name in positional]
        result = function(*ordered, **operands, **_options(desc, parameters), **options(desc))
        return result if isinstance(result, tuple) else (result,)

    return call


def _options(desc: OperatorDesc, parameters: Mapping[str, object]) -> dict[str, object]:
    """The fields that are no tensors, and the output's data type, if the function takes them."""
    options = {field.name: getattr(desc, field.name) for field in fields(desc)}
    if "OutputTensor" in desc.tensors:
        options["output_dtype"] = desc.tensors["OutputTensor"].dtype
    return {name: value for name, value in options.items() if name in parameters}
