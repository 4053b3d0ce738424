"""Support tables as data: what each feature level allows of an operator, and its call.

Each operator's are in its room; validation, the documents and the suite's coverage read them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from jax import Array

from dmlax._directml import rules
from dmlax._directml.descs import OperatorDesc
from dmlax._directml.enums import DataType, FeatureLevel
from dmlax._directml.rules import Rule

Kind = Literal["Input", "Optional input", "Output", "Optional output"]
_OUTPUTS = ("Output", "Optional output")
Tensors = Mapping[str, Array]
FLOATS = (DataType.FLOAT32, DataType.FLOAT16)
INTEGERS = (
    *(DataType.INT32, DataType.INT16, DataType.INT8),
    *(DataType.UINT32, DataType.UINT16, DataType.UINT8),
)
EIGHT_BITS = (DataType.INT8, DataType.UINT8)
_PAGES = "https://learn.microsoft.com/windows/win32/api/directml/"


class Row(NamedTuple):
    """One row of a page's table.

    Attributes:
      tensor: DirectML's name.
      kind: whether it is read or written, and whether it may be absent.
      dimension_counts: the lowest and the highest.
      data_types: those that are supported.
      dimensions: the pattern that the page prints, brackets around what may be left out; None
        where it prints none.
    """

    tensor: str
    kind: Kind
    dimension_counts: tuple[int, int]
    data_types: tuple[DataType, ...]
    dimensions: str | None = None

    @property
    def is_output(self) -> bool:
        """True if it is written."""
        return self.kind in _OUTPUTS

    @property
    def is_optional(self) -> bool:
        """True if it may be absent."""
        return self.kind.startswith("Optional")


class Table(NamedTuple):
    """Rows and rules that hold from one feature level on, until the operator's next table."""

    feature_level: FeatureLevel
    rows: tuple[Row, ...]
    rules: tuple[Rule, ...]


def supported(desc: Any) -> str | None:
    """The `why_not` of an operator whose every valid descriptor runs."""
    return None


@dataclass(frozen=True)
class Support:
    """DirectML's side of one operator.

    Attributes:
      desc: its descriptor's class.
      page: where DirectML describes it.
      tables: by ascending feature level.
      call: calls the function of `dmlax` with a valid descriptor's fields, on logical tensors by
        name; it returns the outputs by name.
      why_not: for a valid descriptor, the sentence that says why the function cannot run it.
    """

    desc: type[OperatorDesc]
    page: str
    tables: tuple[Table, ...]
    call: Callable[[Any, Tensors], Tensors]
    why_not: Callable[[Any], str | None] = supported

    @property
    def introduced(self) -> FeatureLevel:
        """The first feature level that has the operator."""
        return self.tables[0].feature_level

    def at(self, feature_level: FeatureLevel) -> Table:
        """The table that holds at a feature level."""
        return [table for table in self.tables if table.feature_level <= feature_level][-1]


def page(name: str) -> str:
    """The address of a page of DirectML's reference."""
    return f"{_PAGES}{name}"


def same_dimension_count(name: str, page: str, *tensors: str) -> Rule:
    """The rule that all of these tensors have one DimensionCount."""
    return rules.SameDimensionCount(
        name=name,
        sentence=f"{', '.join(tensors[:-1])} and {tensors[-1]} have the same DimensionCount.",
        page=page,
        tensors=tensors,
    )


def same_data_type(name: str, page: str, tensor: str, other: str) -> Rule:
    """The rule that a tensor has the DataType of another."""
    return rules.SameDataType(
        name=name,
        sentence=f"{tensor} has the DataType of {other}.",
        page=page,
        tensor=tensor,
        other=other,
    )


def flat(tensors: Tensors, name: str) -> Any:
    """A parameter with one axis, whichever one the desc has it on; None if it is absent."""
    return tensors[name].reshape(-1) if name in tensors else None
