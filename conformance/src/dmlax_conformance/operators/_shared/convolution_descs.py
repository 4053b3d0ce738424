"""Desc vectors that both convolutions have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...format.tensors import DTYPES, Tensor
from ..desc_topics import Call, DescTopic, call, dashed
from ..tables import TABLES
from ..topics import drawn
from .convolution_cases import attributes, output, parameter
from .strided_descs import add_strided, overlapping, short_by_one, sliding

FULL, BARE, GROUPS, LINE = (f"desc-rules-{end}" for end in ("full", "bare", "groups", "line"))
NO_ELEMENTS = {"InputTensor": [0, 2, 2, 3], "OutputTensor": [0, 2, 2, 2]}
MIXTURE = attributes((2, 1), (1, 2), (1, 0), (2, 3))


def operands(rank: int, groups: int = 1) -> dict[str, Tensor]:
    """Return an image of two channels and two filters, of 3 or 4 dimensions."""
    image, kernel = [1, 2, *[2][: rank - 3], 3], [2, 2 // groups, *[1][: rank - 3], 2]
    return {
        "InputTensor": drawn("uint8", image, 11, 0, 255),
        "FilterTensor": drawn("int8", kernel, 12, -128, 127),
    }


def zero_points(rank: int) -> dict[str, Tensor]:
    """Return a zero point of the input, and one for each filter."""
    return {
        "InputZeroPointTensor": parameter([120], "uint8", rank),
        "FilterZeroPointTensor": parameter([-5, 9], "int8", rank),
    }


def plain(rank: int, groups: int = 1) -> dict[str, Any]:
    """Return the attributes of windows without stride, dilation and padding."""
    ones, zeros = (1,) * (rank - 2), (0,) * (rank - 2)
    return attributes(ones, ones, zeros, zeros, groups)


def convolution(
    operator: str, given: Mapping[str, Tensor], dtype: str, options: Mapping[str, Any] | None = None
) -> Call:
    """Return a call with the output that its windows give."""
    options = options or attributes()
    asked = output(given["InputTensor"], given["FilterTensor"], options, dtype)
    return call(operator, given, asked, options)


def replaced(made: Call, tensors: Mapping[str, Tensor]) -> Call:
    """Return the call with other tensors, and plain windows."""
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    return convolution(made.operator, {**made.inputs, **tensors}, dtype)


def exchanged(made: Call) -> Call:
    """Return the call with UINT8 for INT8 and the reverse."""
    other = {"uint8": "int8", "int8": "uint8"}
    given = {k: _as(v, other[v.dtype]) if v.dtype in other else v for k, v in made.inputs.items()}
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    return convolution(made.operator, given, other.get(dtype, dtype))


def _as(tensor: Tensor, dtype: str) -> Tensor:
    """Return the elements in the other type of 8 bits, moved to its range."""
    shift = DTYPES[dtype].low - DTYPES[tensor.dtype].low
    return Tensor(dtype, tensor.sizes, tuple(word + shift for word in tensor.words))


@dataclass(frozen=True)
class Descs:
    """The vectors of one convolution, which differ in the parameters it has."""

    operator: str
    make: Callable[..., Call]
    same_data_type: Mapping[str, str]  # a parameter, and the tensor whose type it has
    single: Sequence[str]  # parameters of one value
    per_channel: Sequence[str]  # parameters of one value, or one for each output channel
    clause: str  # of the windows

    def rules(self) -> Iterator[DescTopic]:
        """Yield the files that break the rules of tensors and of windows."""
        yield self._parameters()
        topic = DescTopic(self.operator, "desc-windows")
        bare = self.make(is_bare=True)
        grouped, line = self.make(is_bare=True, groups=2), self.make(3)
        topic.accepted(BARE, "the twin: no optional tensor", bare)
        topic.accepted(GROUPS, "the twin: two groups of one channel", grouped, flags="Groups")
        text = "the twin: three dimensions, one of them spatial"
        topic.accepted(LINE, text, line, flags="Rank3")
        _options(topic)
        _fits(topic, bare)
        _grouping(topic, bare, grouped)
        for name in ("FilterTensor", "OutputTensor", "BiasTensor"):
            if line.desc.get(name):
                changed = line.described(name, [*line.desc[name]["Sizes"], 1])
                text, rule = f"{name} has 4 dimensions, the input 3", "same-dimension-count"
                topic.refused(f"desc-{dashed(name)}-rank-4", text, LINE, rule, name, changed)
        yield topic

    def _parameters(self) -> DescTopic:
        """Break what the tensors owe each other."""
        topic, made = DescTopic(self.operator, "desc-parameters"), self.make()
        topic.accepted(FULL, "the twin: every tensor is present", made, flags="Optional")
        for field, pair in self.same_data_type.items():
            wrong = "INT8" if made.desc[pair]["DataType"] == "UINT8" else "UINT8"
            name, rule = f"desc-{dashed(field)}-type", f"{dashed(field)}-data-type"
            text = f"{field} is {wrong}, {pair} is not"
            changed = made.described(field, data_type=wrong)
            topic.refused(name, text, FULL, rule, field, changed)
        for name, rule, field, sizes in self._wrong_sizes():
            text, rule = f"{field} has sizes {sizes}", f"{dashed(field)}-{rule}"
            name = f"desc-{dashed(field)}-{name}"
            topic.refused(name, text, FULL, rule, field, made.described(field, sizes))
        return topic

    def _wrong_sizes(self) -> Iterator[tuple[str, str, str, list[int]]]:
        for field in self.single:
            yield "each", "one", field, [1, 2, 1, 1]
        for field in self.per_channel:
            yield "3", "channels", field, [1, 3, 1, 1]
            yield "axis-0", "channels", field, [2, 1, 1, 1]
            yield "axis-3", "channels", field, [1, 1, 1, 2]
        if "BiasTensor" in self.make().desc:
            yield "1", "channels", "BiasTensor", [1, 1, 1, 1]
            yield "axis-0", "channels", "BiasTensor", [2, 1, 1, 1]
            yield "whole", "channels", "BiasTensor", [1, 2, 2, 2]

    def levels(self) -> DescTopic:
        """Return the file of levels, with what both convolutions have in it."""
        topic = DescTopic(self.operator, "desc-levels")
        for level in ("2_1", "4_0", "5_2"):
            text = f"stride, dilation and padding together, at {level}"
            made, flags = self.make(options=MIXTURE), "Level Windows Padding"
            topic.accepted(
                f"desc-convolution-{dashed(level)}", text, made, level, self.clause, flags
            )
        self.step(topic, "rank-3", "three dimensions", self.make(3))
        return topic

    def step(
        self,
        topic: DescTopic,
        name: str,
        text: str,
        made: Call,
        levels: tuple[str, str] = ("3_1", "4_0"),
        field: str = "InputTensor",
    ) -> None:
        """Add a desc at two levels: the lower one does not have the rank of a tensor."""
        topic.step(name, text, made, levels, "tensor-dimension-count", field)

    def strides(
        self, own: Callable[[DescTopic], None], parameters: Mapping[str, Tensor]
    ) -> DescTopic:
        """Return the file of strides; `parameters` go with inputs that overlap."""
        topic, made = DescTopic(self.operator, "desc-strides"), self.make(groups=2)
        for name, (text, each) in LAYOUTS.items():
            add_strided(topic, name, text, made, **each)
        overlapping(topic, "nhwc-output", "OutputTensor", (8, 4, 2, 2), (0, 4, 0, 1), (8, 2, 2, 1))
        short_by_one(topic, "nhwc-input", "InputTensor")
        own(topic)
        each = {"InputTensor": (6, 1, 2), "OutputTensor": (4, 1, 2)}
        add_strided(topic, "rank-3", "three dimensions, NWC", self.make(3), **each)
        bare = self.make(is_bare=True)
        for name, text, sizes, strides in SHARED:
            length = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
            image = sliding("uint8", -(-length // 4) * 4, sizes, strides)
            shared = replaced(bare, {**parameters, "InputTensor": image})
            add_strided(topic, f"shared-{name}", text, shared, InputTensor=strides)
        return topic

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made = self.make(is_bare=True)
        changed = made.patched("InputTensor", Sizes=[1, 0, 2, 3])
        changed |= made.patched("FilterTensor", Sizes=[2, 0, 1, 2])
        text, rule = "input and filter have no channels", "tensor-sizes-positive"
        topic.together("channels-0", text, base, rule, "InputTensor", changed)
        _many_elements(topic, made)
        changed = {"DimensionCount": 1, **attributes((1,), (1,), (0,), (0,))}
        text = "one entry in every attribute, for tensors of four dimensions"
        name, rule = "dimensions-1-of-2", "spatial-dimension-count"
        topic.together(name, text, base, rule, "DimensionCount", changed)
        _roomy_output(topic, made)
        for level in TABLES[self.operator]:
            _five_dimensions(topic, f"{base}-{dashed(level)}", level, made)

    def refuse_rank(self, topic: DescTopic, level: str, field: str, rank: int, made: Call) -> None:
        """Give a parameter of one element a rank that its line does not have."""
        label = f"{dashed(level)}-{dashed(field)}"
        base, text = f"desc-kills-{label}-alone", f"the twin: {field} is one value, at {level}"
        rule, flags = "tensor-dimension-count", "Invalid Row"
        topic.accepted(base, text, made, level, rule, "Level")
        name, text = f"desc-{label}-ones-{rank}", f"{field} has {rank} sizes of 1"
        changed = made.described(field, [1] * rank)
        topic.refused(name, text, base, rule, field, changed, flags=flags)


OPTIONS: dict[str, tuple[str, Any]] = {
    "stride-0": ("Strides", [1, 0]),
    "strides-too-few": ("Strides", [1]),
    "strides-too-many": ("Strides", [1, 1, 1]),
    "dilation-0": ("Dilations", [0, 1]),
    "dilations-too-few": ("Dilations", [1]),
    "start-padding-too-few": ("StartPadding", [0]),
    "start-padding-negative": ("StartPadding", [0, -1]),
    "end-padding-too-many": ("EndPadding", [0, 0, 0]),
    "end-padding-negative": ("EndPadding", [-1, 0]),
    "group-count-0": ("GroupCount", 0),
}


def _options(topic: DescTopic) -> None:
    for name, (field, value) in OPTIONS.items():
        text, changed = f"{field} is {value}", {field: value}
        topic.refused(f"desc-{name}", text, BARE, dashed(field), field, changed)
    for base, axes, counts in ((BARE, 2, (0, 1, 3)), (LINE, 1, (2,))):
        for count in counts:
            name, field = f"desc-dimensions-{count}-of-{axes}", "DimensionCount"
            text = f"DimensionCount is {count} for tensors of {axes + 2} dimensions"
            topic.refused(name, text, base, "spatial-dimension-count", field, {field: count})


def _fits(topic: DescTopic, made: Call) -> None:
    """Let the kernel be too large, and the output have the wrong sizes."""
    rule, field = "kernel-fits", "FilterTensor"
    text, changed = "a kernel of 4 columns over an input of 3", made.described(field, [2, 2, 1, 4])
    topic.refused("desc-kernel-too-wide", text, BARE, rule, field, changed)
    text, changed = "a dilated kernel that spans 4 of 3 columns", {"Dilations": [1, 3]}
    topic.refused("desc-dilated-too-wide", text, BARE, rule, field, changed)
    rule, field = "output-sizes", "OutputTensor"
    wrong = {"batch": [2, 2, 2, 2], "channels": [1, 1, 2, 2]}
    for name, sizes in {**wrong, "height": [1, 2, 3, 2], "width": [1, 2, 2, 1]}.items():
        text = f"the output should be {{1,2,2,2}}, and has sizes {sizes}"
        changed = made.described(field, sizes)
        topic.refused(f"desc-output-{name}", text, BARE, rule, field, changed)
    for option, value in (("Strides", [2, 1]), ("EndPadding", [0, 1])):
        name, text = f"desc-output-{dashed(option)}", f"{option} is {value}, the output as before"
        topic.refused(name, text, BARE, rule, field, {option: value})


def _grouping(topic: DescTopic, bare: Call, grouped: Call) -> None:
    rule, field = "channels", "FilterTensor"
    for base, count in ((BARE, 2), (GROUPS, 1)):
        name = f"desc-channels-groups-{count}"
        text = f"{count} groups, which the filter's channels do not give"
        topic.refused(name, text, base, rule, field, {"GroupCount": count})
    text, changed = "a filter of 3 channels", bare.described(field, [2, 3, 1, 2])
    topic.refused("desc-channels-3", text, BARE, rule, field, changed)
    three = {field: [3, 1, 1, 2], "OutputTensor": [1, 3, 2, 2]}
    if "FilterScaleTensor" in grouped.desc:
        three["FilterScaleTensor"] = [1, 1, 1, 1]
    changed = {
        k: v for name, sizes in three.items() for k, v in grouped.described(name, sizes).items()
    }
    text = "two groups cannot share three output channels"
    topic.refused("desc-groups-divide", text, GROUPS, "groups-divide", "GroupCount", changed)


LAYOUTS: dict[str, tuple[str, dict[str, Sequence[int]]]] = {
    "nhwc-input": ("an input of {1,2,2,3} in NHWC", {"InputTensor": (12, 1, 6, 2)}),
    "nhwc-output": ("an output of {1,2,2,2} in NHWC", {"OutputTensor": (8, 1, 4, 2)}),
    "nhwc": (
        "input, filter and output in NHWC",
        {"InputTensor": (12, 1, 6, 2), "FilterTensor": (2, 1, 2, 1), "OutputTensor": (8, 1, 4, 2)},
    ),
    "rows-padded": (
        "rows of input and output padded to 8",
        {"InputTensor": (32, 16, 8, 1), "OutputTensor": (32, 16, 8, 1)},
    ),
    "interleaved": (
        "channels of 4 in every third word, images in every second of those: not nested",
        {"OutputTensor": (24, 12, 3, 2)},
    ),
    "filter-transposed": ("the columns of a filter first", {"FilterTensor": (1, 8, 4, 2)}),
    "filter-zero-points": (
        "filter zero points in every third byte",
        {"FilterZeroPointTensor": (9, 3, 1, 1)},
    ),
}
SHARED = (
    ("windows", "the rows of an input are overlapping windows", (1, 2, 2, 3), (0, 3, 1, 1)),
    ("channels", "one channel, read twice", (1, 2, 2, 3), (0, 0, 3, 1)),
    ("batch", "one image, read three times", (3, 2, 2, 3), (0, 6, 3, 1)),
)


def _many_elements(topic: DescTopic, made: Call) -> None:
    """Repeat one element 2^32 times under strides so long that only one window fits."""
    words, wide = made.inputs["InputTensor"].words, attributes((65536, 65536))
    filters = Tensor("int8", (2, 2, 1, 1), made.inputs["FilterTensor"].words[:4])
    image = Tensor("uint8", (1, 2, 1, 1), (words[0],) * 2)
    given = {**made.inputs, "InputTensor": image, "FilterTensor": filters}
    dtype = made.desc["OutputTensor"]["DataType"].lower()
    strided = convolution(made.operator, given, dtype, wide).laid_out("InputTensor", [0] * 4)
    base = "desc-kills-long-strides"
    text = "the twin: strides of 65,536, and an input that repeats one element"
    topic.accepted(base, text, strided, flags="Strided Windows")
    changed = strided.described("InputTensor", [1, 2, 65536, 65536], [0] * 4)
    name, text = "desc-input-elements-2-33", "the input repeats one element 2^33 times"
    rule, flags = "tensor-element-limit", "Invalid Layout"
    topic.refused(name, text, base, rule, "InputTensor", changed, flags=flags)


def _roomy_output(topic: DescTopic, made: Call) -> None:
    strides = [16, 8, 3, 1]
    least = made.described("OutputTensor", None, strides)["OutputTensor"]["TotalTensorSizeInBytes"]
    roomy = made.laid_out("OutputTensor", strides, least + 16)
    text = "a strided output whose buffer is 16 bytes longer than needed"
    clause, flags = "tensor-buffer", "Strided Buffer"
    topic.accepted("desc-output-roomy", text, roomy, clause=clause, flags=flags)


def _five_dimensions(topic: DescTopic, base: str, level: str, made: Call) -> None:
    """Put a whole convolution in five dimensions, three of them spatial."""
    topic.accepted(base, f"the twin: four dimensions at {level}", made, level, flags="Level")
    fields: dict[str, Any] = {"DimensionCount": 3, **plain(5)}
    for name in ("InputTensor", "FilterTensor", "OutputTensor"):
        fields |= made.described(name, [*made.desc[name]["Sizes"], 1])
    text = f"input, filter and output have 5 dimensions, 3 of them spatial, at {level}"
    name, rule = f"{dashed(level)}-rank-5", "tensor-dimension-count"
    topic.together(name, text, base, rule, "InputTensor", fields)
