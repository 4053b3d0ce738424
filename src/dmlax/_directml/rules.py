"""Kinds of rule that the support tables of several operators hold."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dmlax._core import windows
from dmlax._directml.descs import BufferTensorDesc, OperatorDesc
from dmlax._directml.enums import FeatureLevel
from dmlax._directml.records import python_name
from dmlax.errors import Code


class Broken(NamedTuple):
    """A field that breaks a rule, and how: the sentence that follows the field's name."""

    field: str
    text: str


class ExcusedError(Exception):
    """A rule read a field that is absent, or breaks a rule itself."""


class Call(NamedTuple):
    """A desc as its rules see it: without fields that are absent or broken."""

    desc: OperatorDesc
    feature_level: FeatureLevel
    broken: frozenset[str]

    def tensor(self, name: str) -> BufferTensorDesc:
        """A tensor; without it the rule says nothing."""
        if name in self.broken or name not in self.desc.tensors:
            raise ExcusedError
        return self.desc.tensors[name]

    def present(self, *names: str) -> Iterator[tuple[str, BufferTensorDesc]]:
        """Those that are there."""
        sound = (name for name in names if name in self.desc.tensors and name not in self.broken)
        return ((name, self.desc.tensors[name]) for name in sound)

    def option(self, name: str) -> Any:
        """A number or an array of the desc."""
        if name in self.broken:
            raise ExcusedError
        return getattr(self.desc, python_name(name))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One binding sentence of a page.

    Attributes:
      name: unique; the suite's invalid vectors name it.
      sentence: the rule in our words.
      page: where it is stated.
    """

    code: ClassVar[Code]
    structural: ClassVar[bool] = False  # whether a broken field excuses the rules that read it
    name: str
    sentence: str
    page: str

    def check(self, call: Call) -> list[Broken]:
        """Every field that breaks the rule; none if a field that it reads excuses it."""
        found: list[Broken] = []
        with suppress(ExcusedError):
            found.extend(self._broken(call))
        return found

    def _broken(self, call: Call) -> Iterator[Broken]:
        raise NotImplementedError


def braces(sizes: tuple[int, ...]) -> str:
    """Sizes as the pages print them."""
    return f"{{{','.join(map(str, sizes))}}}"


# --- data types and dimension counts ----------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SameDimensionCount(Rule):
    """`tensors` have the DimensionCount of the first."""

    code = "dimension_count"
    structural = True
    tensors: tuple[str, ...]

    def _broken(self, call: Call) -> Iterator[Broken]:
        first = self.tensors[0]
        wanted = call.tensor(first).dimension_count
        for name, tensor in call.present(*self.tensors[1:]):
            if tensor.dimension_count != wanted:
                found = f"has DimensionCount {tensor.dimension_count}, {first} has {wanted}"
                yield Broken(name, f"{found}; {call.feature_level} requires them equal")


@dataclass(frozen=True, kw_only=True)
class SameDataType(Rule):
    """`tensor` has the data type of `other`."""

    code = "data_type"
    tensor: str
    other: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        found, wanted = call.tensor(self.tensor).data_type, call.tensor(self.other).data_type
        if found != wanted:
            text = f"has DataType {found}, {self.other} has {wanted}; they must be equal"
            yield Broken(self.tensor, text)


# --- sizes ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SameSizes(Rule):
    """`tensors` have the sizes of the first; broadcasting is a stride of 0."""

    code = "sizes"
    tensors: tuple[str, ...]

    def _broken(self, call: Call) -> Iterator[Broken]:
        first = self.tensors[0]
        wanted = call.tensor(first).sizes
        for name, tensor in call.present(*self.tensors[1:]):
            if len(tensor.sizes) == len(wanted) and tensor.sizes != wanted:
                found = f"has Sizes {braces(tensor.sizes)}, {first} has {braces(wanted)}"
                yield Broken(name, f"{found}; they must be equal (strides of 0 broadcast)")


@dataclass(frozen=True, kw_only=True)
class OneElement(Rule):
    """All sizes of `tensor` are 1."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes = call.tensor(self.tensor).sizes
        if set(sizes) != {1}:
            text = f"has Sizes {braces(sizes)}, expected {braces((1,) * len(sizes))}"
            yield Broken(self.tensor, text)


# --- options ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SpatialDimensionCount(Rule):
    """DimensionCount is the number of the input's axes after {N, C}."""

    code = "dimension_count"
    structural = True

    def _broken(self, call: Call) -> Iterator[Broken]:
        found, rank = call.option("DimensionCount"), call.tensor("InputTensor").dimension_count
        if found != rank - 2:
            text = f"is {found}, expected {rank - 2}, as InputTensor has DimensionCount {rank}"
            yield Broken("DimensionCount", text)


@dataclass(frozen=True, kw_only=True)
class EntryPerAxis(Rule):
    """`array` has DimensionCount entries of at least `least`."""

    code = "option"
    structural = True
    array: str
    least: int

    def _broken(self, call: Call) -> Iterator[Broken]:
        values, count = call.option(self.array), call.option("DimensionCount")
        if len(values) != count:
            yield Broken(self.array, f"has {len(values)} entries, expected {count}, DimensionCount")
        elif any(value < self.least for value in values):
            yield Broken(self.array, f"is {braces(values)}, expected at least {self.least} in each")


_LEAST = {"WindowSize": 1, "Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}


def entries_per_axis(prefix: str, page: str, *arrays: str) -> tuple[Rule, ...]:
    """The rules of the arrays that shape windows."""
    return tuple(
        EntryPerAxis(
            name=f"{prefix}-{python_name(array).replace('_', '-')}",
            sentence=f"{array} has an entry of at least {_LEAST[array]} for each spatial axis.",
            page=page,
            array=array,
            least=_LEAST[array],
        )
        for array in arrays
    )


class Windows(NamedTuple):
    """The spatial sizes of the padded input and of the dilated window, and the strides."""

    padded: tuple[int, ...]
    spans: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def fit(self) -> bool:
        """True if at least one window fits on each axis."""
        return all(span <= size for span, size in zip(self.spans, self.padded, strict=True))

    @property
    def counts(self) -> tuple[int, ...]:
        """The windows on each axis."""
        return tuple(map(windows.output_size, self.padded, self.spans, self.strides))


def read_windows(call: Call, window: tuple[int, ...]) -> Windows:
    """Reads the options that place a window of these sizes; absent Dilations are 1."""
    sizes = call.tensor("InputTensor").sizes[2:]
    call.option("DimensionCount")  # sound, so that all of these have as many entries
    padding = zip(sizes, call.option("StartPadding"), call.option("EndPadding"), strict=True)
    dilated = hasattr(call.desc, "dilations")
    dilations = call.option("Dilations") if dilated else (1,) * len(window)
    spans = tuple(map(windows.dilated_size, window, dilations))
    return Windows(tuple(map(sum, padding)), spans, call.option("Strides"))
