"""The form of a descriptor's rule, and the rules that several operators have."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from dmlax._core import windows
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import FeatureLevel
from dmlax._descriptors.records import python_name
from dmlax.errors import Code

Sizes = tuple[int, ...]
_LEAST = {"WindowSize": 1, "Strides": 1, "Dilations": 1, "StartPadding": 0, "EndPadding": 0}


class Broken(NamedTuple):
    """A field that breaks a rule, and the sentence that follows the field's name."""

    field: str
    text: str


class ExcusedError(Exception):
    """A rule read a field that is absent, or that breaks a rule itself."""


class Call(NamedTuple):
    """A desc as its rules see it, without fields that are absent or broken."""

    desc: OperatorDesc
    feature_level: FeatureLevel
    broken: frozenset[str]

    def tensor(self, name: str) -> BufferTensorDesc:
        """The tensor of that name; its absence excuses the rule."""
        if name in self.broken or name not in self.desc.tensors:
            raise ExcusedError
        return self.desc.tensors[name]

    def sizes(self, *names: str) -> list[Sizes]:
        """The sizes of several tensors."""
        return [self.tensor(name).sizes for name in names]

    def present(self, *names: str) -> Iterator[tuple[str, BufferTensorDesc]]:
        """The tensors of these names that are neither absent nor broken."""
        sound = (name for name in names if name in self.desc.tensors and name not in self.broken)
        return ((name, self.desc.tensors[name]) for name in sound)

    def number(self, name: str) -> int:
        """An option that is a number."""
        value: int = self._option(name)
        return value

    def array(self, name: str) -> Sizes:
        """An option with an entry for each spatial axis."""
        value: Sizes = self._option(name)
        return value

    def _option(self, name: str) -> Any:
        if name in self.broken:
            raise ExcusedError
        return getattr(self.desc, python_name(name))


Check = Callable[[Call], Iterator[Broken]]


@dataclass(frozen=True)
class Rule:
    """One binding sentence of a page.

    Attributes:
      name: unique once `describe` has put the operator's prefix before it; the suite's invalid
        vectors name it.
      code: the code of its violations.
      sentence: the rule in our words.
      broken: yields every field that breaks the rule.
      structural: True if a broken field excuses the rules that read it.
      page: where the rule is stated; `describe` fills it in.
    """

    name: str
    code: Code
    sentence: str
    broken: Check
    structural: bool = False
    page: str = ""

    def check(self, call: Call) -> list[Broken]:
        """Every field that breaks the rule; none if a field that it reads excuses it."""
        broken: list[Broken] = []
        with suppress(ExcusedError):
            broken.extend(self.broken(call))
        return broken


def rule(
    name: str, code: Code, sentence: str, *, structural: bool = False
) -> Callable[[Check], Rule]:
    """Decorates a check, which becomes a `Rule`."""
    return lambda check: Rule(name, code, sentence, check, structural)


def braces(sizes: Sizes) -> str:
    """Sizes as the pages print them."""
    return f"{{{','.join(map(str, sizes))}}}"


def hyphenated(field: str) -> str:
    """A field as a part of a rule's name: "a-scale" for AScaleTensor."""
    return python_name(field.removesuffix("Tensor")).replace("_", "-")


# --- data types and dimension counts ----------------------------------------------------


def same_dimension_count(*tensors: str, name: str = "same-dimension-count", note: str = "") -> Rule:
    """The rule that tensors have the DimensionCount of the first of them."""
    first, *others = tensors

    def check(call: Call) -> Iterator[Broken]:
        expected = call.tensor(first).dimension_count
        for other, tensor in call.present(*others):
            if tensor.dimension_count != expected:
                text = f"has DimensionCount {tensor.dimension_count}, {first} has {expected}"
                yield Broken(other, f"{text}; {call.feature_level} requires them equal")

    sentence = f"{_listed(tensors)} have the same DimensionCount{note}."
    return Rule(name, "dimension_count", sentence, check, structural=True)


def same_data_type(tensor: str, other: str) -> Rule:
    """The rule that a tensor has the DataType of another."""

    def check(call: Call) -> Iterator[Broken]:
        data_type, expected = call.tensor(tensor).data_type, call.tensor(other).data_type
        if data_type != expected:
            text = f"has DataType {data_type}, {other} has {expected}; they must be equal"
            yield Broken(tensor, text)

    sentence = f"{tensor} has the DataType of {other}."
    return Rule(f"{hyphenated(tensor)}-data-type", "data_type", sentence, check)


def zero_point_data_types(*names: str) -> tuple[Rule, ...]:
    """The rules that a zero point has the DataType of its tensor, "Input" for InputTensor."""
    return tuple(same_data_type(f"{name}ZeroPointTensor", f"{name}Tensor") for name in names)


# --- sizes ------------------------------------------------------------------------------


def same_sizes(*tensors: str, name: str = "same-sizes") -> Rule:
    """The rule that tensors have the sizes of the first of them; a stride of 0 broadcasts."""
    first, *others = tensors

    def check(call: Call) -> Iterator[Broken]:
        expected = call.tensor(first).sizes
        for other, tensor in call.present(*others):
            if len(tensor.sizes) == len(expected) and tensor.sizes != expected:
                text = f"has Sizes {braces(tensor.sizes)}, {first} has {braces(expected)}"
                yield Broken(other, f"{text}; they must be equal (strides of 0 broadcast)")

    return Rule(name, "sizes", f"{_listed(tensors)} have the same Sizes.", check)


def one_element(tensor: str, *, name: str = "") -> Rule:
    """The rule that all sizes of a tensor are 1."""

    def check(call: Call) -> Iterator[Broken]:
        sizes = call.tensor(tensor).sizes
        if set(sizes) != {1}:
            yield Broken(tensor, f"has Sizes {braces(sizes)}, expected {braces((1,) * len(sizes))}")

    sentence = f"{tensor} has one element: all its Sizes are 1."
    return Rule(name or f"{hyphenated(tensor)}-one", "sizes", sentence, check)


def one_or_per_channel(
    channels: str, word: str, source: str, tensor: str, *, axis: int, rank: int | None = None
) -> Rule:
    """The rule that a tensor has one element or one per channel, on axis 1 if it has all axes.

    `source` is the tensor that has the channels on `axis`. `rank` is the number of all axes, by
    default that of `source`.
    """

    def check(call: Call) -> Iterator[Broken]:
        sizes, of_source = call.sizes(tensor, source)
        count, full_rank = of_source[axis], rank or len(of_source)
        long = [axis for axis, size in enumerate(sizes) if size != 1]
        has_count = not long or (len(long) == 1 and sizes[long[0]] == count)
        if not has_count or (long and len(sizes) == full_rank and long != [1]):
            full = braces((1, count, *(1,) * (full_rank - 2)))
            expected = full if len(sizes) == full_rank else f"{count} elements"
            text = f"has Sizes {braces(sizes)}, expected one element or {expected}"
            yield Broken(tensor, f"{text}, one per {word} of {source}")

    sentence = (
        f"{tensor} is {{1, 1, 1, 1}}, or {{1, {channels}, 1, 1}}; with fewer axes, where the page "
        "does not say which are left out, the channels may be on any."
    )
    return Rule(f"{hyphenated(tensor)}-channels", "sizes", sentence, check)


def check_output(call: Call, expected: Sizes, inputs: str) -> Iterator[Broken]:
    """Expects OutputTensor to have the sizes that follow from the inputs."""
    sizes = call.tensor("OutputTensor").sizes
    if sizes != expected:
        text = f"has Sizes {braces(sizes)}, expected {braces(expected)} of this {inputs}"
        yield Broken("OutputTensor", text)


# --- windows ----------------------------------------------------------------------------


def spatial_dimension_count(sentence: str) -> Rule:
    """The rule that DimensionCount is the number of the input's axes after {N, C}."""

    def check(call: Call) -> Iterator[Broken]:
        count, rank = call.number("DimensionCount"), call.tensor("InputTensor").dimension_count
        if count != rank - 2:
            text = f"is {count}, expected {rank - 2}, as InputTensor has DimensionCount {rank}"
            yield Broken("DimensionCount", text)

    name = "spatial-dimension-count"
    return Rule(name, "dimension_count", sentence, check, structural=True)


def entry_per_axis(array: str) -> Rule:
    """The rule that an array that shapes windows has DimensionCount entries."""
    least = _LEAST[array]

    def check(call: Call) -> Iterator[Broken]:
        values, count = call.array(array), call.number("DimensionCount")
        if len(values) != count:
            yield Broken(array, f"has {len(values)} entries, expected {count}, DimensionCount")
        elif any(value < least for value in values):
            yield Broken(array, f"is {braces(values)}, expected at least {least} in each")

    sentence = f"{array} has an entry of at least {least} for each spatial axis."
    return Rule(hyphenated(array), "option", sentence, check, structural=True)


class Windows(NamedTuple):
    """The spatial sizes of the padded input and of the dilated window, and the strides."""

    padded: Sizes
    spans: Sizes
    strides: Sizes

    @property
    def fit(self) -> bool:
        """True if at least one window fits on each axis."""
        return all(span <= size for span, size in zip(self.spans, self.padded, strict=True))

    @property
    def counts(self) -> Sizes:
        """The windows on each axis."""
        return tuple(map(windows.output_size, self.padded, self.spans, self.strides))


def read_windows(call: Call, window: Sizes) -> Windows:
    """Reads the options that place a window of these sizes; absent Dilations are 1."""
    sizes = call.tensor("InputTensor").sizes[2:]
    call.number("DimensionCount")  # a broken one excuses the rule: the arrays' lengths follow it
    padding = zip(sizes, call.array("StartPadding"), call.array("EndPadding"), strict=True)
    is_dilated = hasattr(call.desc, "dilations")
    dilations = call.array("Dilations") if is_dilated else (1,) * len(window)
    spans = tuple(map(windows.dilated_size, window, dilations))
    return Windows(tuple(map(sum, padding)), spans, call.array("Strides"))


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
