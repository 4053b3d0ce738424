"""Descs of both convolutions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...format.tensors import DTYPES, Tensor
from ..desc_topics import Call, DescTopic, call, dashed
from ..tables import TABLES, Row, tensors
from ..topics import drawn
from .convolution_cases import attributes, output, parameter, scale_words
from .convolution_rules import PER_CHANNEL, SINGLE, TYPES
from .strided_descs import StridedTopic, reach, sliding

FULL, BARE, GROUPS, LINE = (f"desc-rules-{end}" for end in ("full", "bare", "groups", "line"))
NO_ELEMENTS = {"InputTensor": [0, 2, 2, 3], "OutputTensor": [0, 2, 2, 2]}
MIXTURE = attributes((2, 1), (1, 2), (1, 0), (2, 3))


@dataclass(frozen=True)
class Descs:
    """The descs of one convolution, which differ in the parameters it has."""

    operator: str
    dtype: str  # of the output
    clause: str  # of the windows

    def make(
        self,
        rank: int = 4,
        parameters: int | None = None,
        filter_scale: int | None = None,
        is_bare: bool = False,
        groups: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> Call:
        """Return a call with every tensor, or with the required ones; parameters have own ranks.

        It has an image of two channels and two filters, of 3 or 4 dimensions.
        """
        own, axes = parameters or rank, rank - 2
        image, kernel = [1, 2, *[2][: rank - 3], 3], [2, 2 // groups, *[1][: rank - 3], 2]
        given = {
            "InputTensor": drawn("uint8", image, 11, 0, 255),
            "FilterTensor": drawn("int8", kernel, 12, -128, 127),
            "InputScaleTensor": scale_words([0x3D800000], own),
            "FilterScaleTensor": scale_words([0x3D000000, 0x3C800000], filter_scale or own),
            "OutputScaleTensor": scale_words([0x40000000], own),
        }
        if not is_bare:
            given |= {
                "InputZeroPointTensor": parameter([120], "uint8", own),
                "FilterZeroPointTensor": parameter([-5, 9], "int8", own),
                "BiasTensor": parameter([3000, -3000], "int32", rank),
                "OutputZeroPointTensor": parameter([100], "uint8", own),
            }
        given = {name: given[name] for name in given if name in tensors(self.operator)}
        return self.convolution(given, options or plain(axes, groups))

    def convolution(self, given: Mapping[str, Tensor], options: Mapping[str, Any]) -> Call:
        """Return a call with the output that its windows give."""
        asked = output(given["InputTensor"], given["FilterTensor"], options, self.dtype)
        return call(self.operator, given, asked, options)

    def replaced(self, made: Call, others: Mapping[str, Tensor]) -> Call:
        """Return the call with other tensors, and plain windows."""
        return self.convolution({**made.inputs, **others}, attributes())

    def at_ranks(self, ranks: Mapping[str, int], is_bare: bool) -> Call:
        """Return a call whose tensors have these dimension counts."""
        own, scale = ranks["InputZeroPointTensor"], ranks.get("FilterScaleTensor")
        return self.make(ranks["InputTensor"], own, scale, is_bare)

    def typed(self, lines: Mapping[str, Row]) -> dict[str, Call]:
        """Return calls that have, among them, every data type of a table."""
        made, other = self.make(), {"uint8": "int8", "int8": "uint8"}
        given = {k: _as(v, other.get(v.dtype, v.dtype)) for k, v in made.inputs.items()}
        exchanged = Descs(self.operator, other.get(self.dtype, self.dtype), self.clause)
        return {"int8-uint8": exchanged.replaced(made, given), "uint8-int8": made}

    # -- rules ---------------------------------------------------------------------------------

    def rules(self) -> Iterator[DescTopic]:
        """Yield the files that break the rules of tensors and of windows."""
        topic, made = DescTopic(self.operator, "desc-parameters"), self.make()
        topic.accepted(FULL, "the twin: every tensor is present", made, flags="Optional")
        for field, pair in ((a, b) for a, b in TYPES.items() if a in made.desc):
            wrong = "INT8" if made.desc[pair]["DataType"] == "UINT8" else "UINT8"
            text, short = f"{field} is {wrong}, {pair} is not", dashed(field)
            changed = made.described(field, data_type=wrong)
            topic.refused(f"desc-{short}-type", text, FULL, f"{short}-data-type", field, changed)
        for rule, fields, wrong_sizes in SIZES:
            for field in (name for name in fields if name in made.desc):
                for name, sizes in wrong_sizes.items():
                    text, short = f"{field} has sizes {sizes}", dashed(field)
                    topic.refuse(f"{short}-{name}", text, FULL, f"{short}-{rule}", {field: sizes})
        yield topic
        topic, line = DescTopic(self.operator, "desc-windows"), self.make(3)
        topic.accepted(BARE, "the twin: no optional tensor", self.make(is_bare=True))
        text, grouped = "the twin: two groups of one channel", self.make(is_bare=True, groups=2)
        topic.accepted(GROUPS, text, grouped, flags="Groups")
        text = "the twin: three dimensions, one of them spatial"
        topic.accepted(LINE, text, line, flags="Rank3")
        _refuse_windows(topic, "FilterScaleTensor" in grouped.desc)
        for name in ("FilterTensor", "OutputTensor", "BiasTensor"):
            if name in line.desc:
                text, sizes = f"{name} has 4 dimensions, the input 3", line.desc[name]["Sizes"]
                end, rule = f"{dashed(name)}-rank-4", "same-dimension-count"
                topic.refuse(end, text, LINE, rule, {name: [*sizes, 1]})
        yield topic

    def levels(self) -> DescTopic:
        """Return the file of levels, with what both convolutions have in it."""
        topic = DescTopic(self.operator, "desc-levels")
        for level in ("2_1", "4_0", "5_2"):
            text = f"stride, dilation and padding together, at {level}"
            made, name = self.make(options=MIXTURE), f"desc-convolution-{dashed(level)}"
            topic.accepted(name, text, made, level, self.clause, "Level Windows Padding")
        step_rank(topic, "rank-3", "three dimensions", self.make(3))
        return topic

    def strides(
        self, own: Callable[[StridedTopic], None], parameters: Mapping[str, Tensor]
    ) -> StridedTopic:
        """Return the file of strides; `parameters` go with inputs that overlap."""
        topic, made = StridedTopic(self.operator), self.make(groups=2)
        for name, (text, each) in LAYOUTS.items():
            topic.add(name, text, made, **each)
        topic.overlap("nhwc-output", "OutputTensor", (8, 4, 2, 2), (0, 4, 0, 1), (8, 2, 2, 1))
        topic.shorten_buffer("nhwc-input", "InputTensor")
        own(topic)
        line = {"InputTensor": (6, 1, 2), "OutputTensor": (4, 1, 2)}
        topic.add("rank-3", "three dimensions, NWC", self.make(3), **line)
        for name, (text, sizes, strides) in SHARED.items():
            image = sliding("uint8", -(-reach(sizes, strides) // 4) * 4, sizes, strides)
            shared = self.replaced(self.make(is_bare=True), {**parameters, "InputTensor": image})
            topic.add(f"shared-{name}", text, shared, InputTensor=strides)
        return topic

    # -- planted bugs that survived all other vectors ------------------------------------------

    def add_survivors(self, topic: DescTopic, base: str) -> None:
        """Add descs for planted bugs that survived all other vectors."""
        made, field = self.make(is_bare=True), "InputTensor"
        changed = made.patched(field, Sizes=[1, 0, 2, 3])
        changed |= made.patched("FilterTensor", Sizes=[2, 0, 1, 2])
        text, rule = "input and filter have no channels", "tensor-sizes-positive"
        topic.together("channels-0", text, base, rule, field, changed)
        self._repeat_one_element(topic, made)
        changed = {"DimensionCount": 1, **attributes((1,), (1,), (0,), (0,))}
        text = "one entry in every attribute, for tensors of four dimensions"
        name, rule = "dimensions-1-of-2", "spatial-dimension-count"
        topic.together(name, text, base, rule, "DimensionCount", changed)
        strides = [16, 8, 3, 1]
        text = "a strided output whose buffer is 16 bytes longer than needed"
        least = made.described("OutputTensor", None, strides)["OutputTensor"]
        roomy = made.laid_out("OutputTensor", strides, least["TotalTensorSizeInBytes"] + 16)
        how = {"clause": "tensor-buffer", "flags": "Strided Buffer"}
        topic.accepted("desc-output-roomy", text, roomy, **how)
        for level in TABLES[self.operator]:
            own, text = f"{base}-{dashed(level)}", f"the twin: four dimensions at {level}"
            topic.accepted(own, text, made, level, flags="Level")
            fields: dict[str, Any] = {"DimensionCount": 3, **plain(3)}
            for name in (field, "FilterTensor", "OutputTensor"):
                fields |= made.described(name, [*made.desc[name]["Sizes"], 1])
            text = f"input, filter and output have 5 dimensions, 3 of them spatial, at {level}"
            name, rule = f"{dashed(level)}-rank-5", "tensor-dimension-count"
            topic.together(name, text, own, rule, field, fields)

    def _repeat_one_element(self, topic: DescTopic, made: Call) -> None:
        """Repeat one element 2^32 times under strides so long that only one window fits."""
        image = Tensor("uint8", (1, 2, 1, 1), made.inputs["InputTensor"].words[:1] * 2)
        filters = Tensor("int8", (2, 2, 1, 1), made.inputs["FilterTensor"].words[:4])
        given = {**made.inputs, "InputTensor": image, "FilterTensor": filters}
        wide = self.convolution(given, attributes((65536, 65536)))
        strided, base = wide.laid_out("InputTensor", [0] * 4), "desc-kills-long-strides"
        text = "the twin: strides of 65,536, and an input that repeats one element"
        topic.accepted(base, text, strided, flags="Strided Windows")
        changed = strided.described("InputTensor", [1, 2, 65536, 65536], [0] * 4)
        name, text = "desc-input-elements-2-33", "the input repeats one element 2^33 times"
        rule, flags = "tensor-element-limit", "Invalid Layout"
        topic.refused(name, text, base, rule, "InputTensor", changed, flags=flags)

    def refuse_rank(self, topic: DescTopic, level: str, field: str, rank: int, base: Call) -> None:
        """Give a parameter of one element a rank that its line does not have."""
        label, rule = f"{dashed(level)}-{dashed(field)}", "tensor-dimension-count"
        made, twin = self.replaced(base, {field: ALONE[field]}), f"desc-kills-{label}-alone"
        text = f"the twin: {field} is one value, at {level}"
        topic.accepted(twin, text, made, level, rule, "Level")
        text, flags = f"{field} has {rank} sizes of 1", "Invalid Row"
        topic.refuse(f"{label}-ones-{rank}", text, twin, rule, {field: [1] * rank}, flags)


def plain(axes: int, groups: int = 1) -> dict[str, Any]:
    """Return the attributes of windows without stride, dilation and padding."""
    ones, zeros = (1,) * axes, (0,) * axes
    return attributes(ones, ones, zeros, zeros, groups)


def step_rank(
    topic: DescTopic,
    name: str,
    text: str,
    made: Call,
    levels: tuple[str, str] = ("3_1", "4_0"),
    field: str = "InputTensor",
) -> None:
    """Add a desc at two levels: the lower one does not have the rank of a tensor."""
    topic.step(name, text, made, levels, "tensor-dimension-count", field)


def _as(tensor: Tensor, dtype: str) -> Tensor:
    """Return the elements in a type of as many bits, moved to its range."""
    if tensor.dtype == dtype:
        return tensor
    shift = DTYPES[dtype].low - DTYPES[tensor.dtype].low
    return Tensor(dtype, tensor.sizes, tuple(word + shift for word in tensor.words))


def _refuse_windows(topic: DescTopic, has_scales: bool) -> None:
    """Break the rules of attributes, and of the sizes that follow from them."""
    for name, (field, value) in OPTIONS.items():
        topic.refuse(name, f"{field} is {value}", BARE, dashed(field), {field: value})
    for base, axes, count in ((BARE, 2, 0), (BARE, 2, 1), (BARE, 2, 3), (LINE, 1, 2)):
        name, rule = f"dimensions-{count}-of-{axes}", "spatial-dimension-count"
        text = f"DimensionCount is {count} for tensors of {axes + 2} dimensions"
        topic.refuse(name, text, base, rule, {"DimensionCount": count})
    text, rule = "a kernel of 4 columns over an input of 3", "kernel-fits"
    topic.refuse("kernel-too-wide", text, BARE, rule, {"FilterTensor": [2, 2, 1, 4]})
    text = "a dilated kernel that spans 4 of 3 columns"
    topic.refuse("dilated-too-wide", text, BARE, rule, {"Dilations": [1, 3]})
    rule, wrong = "output-sizes", {"batch": [2, 2, 2, 2], "channels": [1, 1, 2, 2]}
    for name, sizes in {**wrong, "height": [1, 2, 3, 2], "width": [1, 2, 2, 1]}.items():
        text = f"the output should be {{1,2,2,2}}, and has sizes {sizes}"
        topic.refuse(f"output-{name}", text, BARE, rule, {"OutputTensor": sizes})
    for option, value in {"Strides": [2, 1], "EndPadding": [0, 1]}.items():
        text = f"{option} is {value}, the output as before"
        topic.refuse(f"output-{dashed(option)}", text, BARE, rule, {option: value})
    for base, count in ((BARE, 2), (GROUPS, 1)):
        text = f"{count} groups, which the filter's channels do not give"
        topic.refuse(f"channels-groups-{count}", text, base, "channels", {"GroupCount": count})
    text = "a filter of 3 channels"
    topic.refuse("channels-3", text, BARE, "channels", {"FilterTensor": [2, 3, 1, 2]})
    three: dict[str, Any] = {"FilterTensor": [3, 1, 1, 2], "OutputTensor": [1, 3, 2, 2]}
    three |= {"FilterScaleTensor": [1, 1, 1, 1]} if has_scales else {}
    text = "two groups cannot share three output channels"
    topic.refuse("groups-divide", text, GROUPS, "groups-divide", three)


SIZES = (  # by rule and tensor
    ("one", SINGLE, {"each": [1, 2, 1, 1]}),
    ("channels", PER_CHANNEL, {"3": [1, 3, 1, 1], "axis-0": [2, 1, 1, 1], "axis-3": [1, 1, 1, 2]}),
    ("channels", ["BiasTensor"], {"1": [1] * 4, "axis-0": [2, 1, 1, 1], "whole": [1, 2, 2, 2]}),
)
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
NHWC: dict[str, Sequence[int]] = {"InputTensor": (12, 1, 6, 2), "OutputTensor": (8, 1, 4, 2)}
ROWS_OF_8: dict[str, Sequence[int]] = dict.fromkeys(NHWC, (32, 16, 8, 1))
NOT_NESTED = "channels of 4 in every third word, images in every second of those: not nested"
LAYOUTS: dict[str, tuple[str, dict[str, Sequence[int]]]] = {
    "nhwc-input": ("an input of {1,2,2,3} in NHWC", {"InputTensor": NHWC["InputTensor"]}),
    "nhwc-output": ("an output of {1,2,2,2} in NHWC", {"OutputTensor": NHWC["OutputTensor"]}),
    "nhwc": ("input, filter and output in NHWC", {**NHWC, "FilterTensor": (2, 1, 2, 1)}),
    "rows-padded": ("rows of input and output padded to 8", ROWS_OF_8),
    "interleaved": (NOT_NESTED, {"OutputTensor": (24, 12, 3, 2)}),
    "filter-transposed": ("the columns of a filter first", {"FilterTensor": (1, 8, 4, 2)}),
    "filter-zero-points": (
        "filter zero points in every third byte",
        {"FilterZeroPointTensor": (9, 3, 1, 1)},
    ),
}
SHARED = {
    "windows": ("the rows of an input are overlapping windows", (1, 2, 2, 3), (0, 3, 1, 1)),
    "channels": ("one channel, read twice", (1, 2, 2, 3), (0, 0, 3, 1)),
    "batch": ("one image, read three times", (3, 2, 2, 3), (0, 6, 3, 1)),
}
ALONE = {
    "InputZeroPointTensor": parameter([120], "uint8"),
    "FilterZeroPointTensor": parameter([-5], "int8"),
    "FilterScaleTensor": scale_words([0x3D000000]),
}
