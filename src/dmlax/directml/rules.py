"""The kinds of rule that a support table may hold; what an operator's rules are is in `support`."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dmlax._core import windows
from dmlax._core.arguments import effective_rank
from dmlax.directml.descs import BufferTensorDesc, OperatorDesc
from dmlax.directml.enums import DataType, FeatureLevel
from dmlax.directml.records import python_name
from dmlax.errors import Code


class Broken(NamedTuple):
    """A field that breaks a rule, and how: the sentence that follows the field's name."""

    field: str
    text: str


class ExcusedError(Exception):
    """A rule read a field that is absent, or breaks a rule itself."""


class Call(NamedTuple):
    """What a rule may look at: fields that are there, and sound."""

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


@dataclass(frozen=True, kw_only=True)
class ScaleDataType(Rule):
    """The scale of a quantization is FLOAT32 for INT32, else as the input."""

    code = "data_type"

    def _broken(self, call: Call) -> Iterator[Broken]:
        given, found = (call.tensor(f"{name}Tensor").data_type for name in ("Input", "Scale"))
        wanted = DataType.FLOAT32 if given == DataType.INT32 else given
        if found != wanted:
            text = f"has DataType {found}, expected {wanted}, as InputTensor has {given}"
            yield Broken("ScaleTensor", text)


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


@dataclass(frozen=True, kw_only=True)
class CoordinateSizes(Rule):
    """OutputCoordinatesTensor is {1, ..., M, N}; each subclass looks at one part."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes = call.tensor("OutputCoordinatesTensor").sizes
        for wanted in self._wanted(call.tensor("InputTensor"), sizes):
            yield Broken("OutputCoordinatesTensor", f"has Sizes {braces(sizes)}, {wanted}")

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class LeadingOnes(CoordinateSizes):
    """All sizes but the last two are 1."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        if set(sizes[:-2]) - {1}:
            yield "expected 1 in all but the last two"


@dataclass(frozen=True, kw_only=True)
class RowPerElement(CoordinateSizes):
    """M is the number of elements of the input."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        if sizes[-2] != input.elements:
            yield (
                f"so M is {sizes[-2]}, expected {input.elements}, "
                f"the elements of InputTensor {braces(input.sizes)}"
            )


@dataclass(frozen=True, kw_only=True)
class ColumnPerAxis(CoordinateSizes):
    """N is from the input's effective rank to its DimensionCount."""

    def _wanted(self, input: BufferTensorDesc, sizes: tuple[int, ...]) -> Iterator[str]:
        low, high = effective_rank(input.sizes), input.dimension_count
        if not low <= sizes[-1] <= high:
            yield (
                f"so N is {sizes[-1]}, expected {low} to {high}: the effective rank and the "
                f"DimensionCount of InputTensor {braces(input.sizes)}"
            )


# --- convolutions -----------------------------------------------------------------------


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


@dataclass(frozen=True, kw_only=True)
class AtLeastOneGroup(Rule):
    """GroupCount is not 0."""

    code = "option"
    structural = True

    def _broken(self, call: Call) -> Iterator[Broken]:
        if call.option("GroupCount") < 1:
            yield Broken("GroupCount", "is 0, expected at least 1")


@dataclass(frozen=True, kw_only=True)
class ChannelsInGroups(Rule):
    """The input's channels are the filter's times GroupCount."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        input, filter = call.tensor("InputTensor").sizes, call.tensor("FilterTensor").sizes
        groups = call.option("GroupCount")
        if filter[1] * groups != input[1]:
            yield Broken(
                "FilterTensor",
                f"has Sizes {braces(filter)}, expected FilterChannelCount * GroupCount {groups} "
                f"to be the InputChannelCount of {braces(input)}",
            )


@dataclass(frozen=True, kw_only=True)
class GroupsDivideFilters(Rule):
    """GroupCount divides the number of filters."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        filter, groups = call.tensor("FilterTensor").sizes, call.option("GroupCount")
        if filter[0] % groups:
            text = f"is {groups}, expected a divisor of the {filter[0]} filters of FilterTensor"
            yield Broken("GroupCount", f"{text} {braces(filter)}")


@dataclass(frozen=True, kw_only=True)
class KernelFits(Rule):
    """The dilated kernel is no larger than the padded input."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        padded, spans = _padded_and_spans(call)
        if any(span > cells for span, cells in zip(spans, padded, strict=True)):
            filter = braces(call.tensor("FilterTensor").sizes)
            text = f"has Sizes {filter} and, with Dilations, spans {braces(spans)} cells"
            yield Broken("FilterTensor", f"{text}, expected at most the padded {braces(padded)}")


@dataclass(frozen=True, kw_only=True)
class OutputSizes(Rule):
    """OutputTensor is {N, K, (padded - span) // stride + 1 ...}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        padded, spans = _padded_and_spans(call)
        if any(span > cells for span, cells in zip(spans, padded, strict=True)):
            return
        batch, outputs = call.tensor("InputTensor").sizes[0], call.tensor("FilterTensor").sizes[0]
        axes = map(windows.output_size, padded, spans, call.option("Strides"))
        wanted, found = (batch, outputs, *axes), call.tensor("OutputTensor").sizes
        if found != wanted:
            text = f"has Sizes {braces(found)}, expected {braces(wanted)}"
            yield Broken("OutputTensor", f"{text} of this InputTensor and FilterTensor")


def _padded_and_spans(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padded input's and the dilated kernel's spatial sizes."""
    sizes, kernel = call.tensor("InputTensor").sizes[2:], call.tensor("FilterTensor").sizes[2:]
    call.option("DimensionCount")  # sound, so that all of these have as many entries
    padding = zip(sizes, call.option("StartPadding"), call.option("EndPadding"), strict=True)
    spans = map(windows.dilated, kernel, call.option("Dilations"))
    return tuple(map(sum, padding)), tuple(spans)


@dataclass(frozen=True, kw_only=True)
class OneOrPerChannel(Rule):
    """`tensor` holds one element or one per output channel, on axis 1 if it has all axes."""

    code = "sizes"
    tensor: str

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes, outputs = call.tensor(self.tensor).sizes, call.tensor("FilterTensor").sizes[0]
        long = [axis for axis, size in enumerate(sizes) if size != 1]
        placed = not long or (len(long) == 1 and sizes[long[0]] == outputs)
        if not placed or (long and len(sizes) == 4 and long != [1]):
            wanted = braces((1, outputs, 1, 1)) if len(sizes) == 4 else f"{outputs} elements"
            text = f"has Sizes {braces(sizes)}, expected one element or {wanted}, one per"
            yield Broken(self.tensor, f"{text} filter of FilterTensor")


@dataclass(frozen=True, kw_only=True)
class BiasPerChannel(Rule):
    """BiasTensor is {1, K, 1, 1}."""

    code = "sizes"

    def _broken(self, call: Call) -> Iterator[Broken]:
        sizes, outputs = call.tensor("BiasTensor").sizes, call.tensor("FilterTensor").sizes[0]
        wanted = (1, outputs, *(1,) * (len(sizes) - 2))
        if sizes != wanted:
            text = f"has Sizes {braces(sizes)}, expected {braces(wanted)}, one per filter"
            yield Broken("BiasTensor", f"{text} of FilterTensor")
