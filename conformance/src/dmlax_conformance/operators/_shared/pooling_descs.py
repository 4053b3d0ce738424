"""Descs of the pools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...format.tensors import DTYPES
from ...format.vectors import Request
from ..desc_topics import Call, DescTopic, call, cycled, dashed
from ..tables import TABLES, tensors
from ..topics import drawn
from .convolution_cases import parameter, scale_words
from .pooling import output_sizes
from .pooling_cases import windows
from .pooling_rules import LOWEST
from .rounding import RANGES
from .strided_descs import StridedTopic, reach, sliding

BASE, FULL, CUBE = (f"desc-rules-{end}" for end in ("bare", "full", "cube"))
NO_ELEMENTS = {"InputTensor": [0, 2, 2, 3], "OutputTensor": [0, 2, 2, 2]}
MIXTURE = windows((1, 2), strides=(2, 1), dilations=(1, 2), start=(1, 0), end=(2, 3))
WORDS = {
    "float32": (0x3F800000, 0x40400000, 0xC0000000),
    "float16": (0x3C00, 0x4200, 0xC000),
    **{
        name: (dtype.low, dtype.high, dtype.high - 1)
        for name, dtype in DTYPES.items()
        if dtype.kind in ("int", "uint") and dtype.width > 8
    },
}


@dataclass(frozen=True)
class Descs:
    """The descs of one pool: of an average if it counts padding."""

    operator: str
    is_average: bool
    clause: str  # of the windows

    def make(
        self,
        rank: int = 4,
        parameters: int | None = None,
        is_bare: bool = False,
        options: Mapping[str, Any] | None = None,
        dtype: str = "uint8",
        channels: int = 2,
        images: int = 1,
        indices: str = "uint32",
    ) -> Call:
        """Return a call with every tensor, or with the required ones; parameters have own ranks.

        It has an image of two channels; the last axis of its window is 2, the others are 1.
        """
        own, axes = rank if parameters is None else parameters, rank - 2
        sizes = [images, channels, *[2] * (axes - 1), 3]
        image = (
            drawn(dtype, sizes, 11, *RANGES[dtype])
            if dtype in RANGES
            else cycled(dtype, sizes, WORDS[dtype])
        )
        given = {"InputTensor": image}
        other = {"uint8": "int8", "int8": "uint8"}.get(dtype, dtype)
        if self.is_average:
            zy = [100, 55] if other == "uint8" else [-9, 44]
            zx = [120, 7] if dtype == "uint8" else [-20, 7]
            words = [0x3F400000, 0x3F000000], [0x3E800000, 0x3F200000]
            one = channels if own > 1 or not is_bare else 1
            given["InputScaleTensor"] = scale_words(words[0][:one], own)
            given["OutputScaleTensor"] = scale_words(words[1][:one], own)
            if not is_bare:
                given["InputZeroPointTensor"] = parameter(zx[:channels], dtype, own)
                given["OutputZeroPointTensor"] = parameter(zy[:channels], other, own)
        return self.pool(given, options or plain(axes), None if is_bare else indices)

    def pool(
        self, given: Mapping[str, Any], options: Mapping[str, Any], indices: str | None = None
    ) -> Call:
        """Return a call with the outputs that its windows give; an average has the other type.

        A maximum has indices if they get a data type.
        """
        image = given["InputTensor"]
        attributes = {"IncludePadding": False, **options} if self.is_average else {**options}
        sizes = output_sizes(image.sizes, attributes)
        types = {"uint8": "int8", "int8": "uint8"} if self.is_average else {}
        asked = {"OutputTensor": Request(types.get(image.dtype, image.dtype), sizes)}
        if indices and not self.is_average:
            asked["OutputIndicesTensor"] = Request(indices, sizes)
        return call(self.operator, given, asked, attributes)

    # -- rules ---------------------------------------------------------------------------------

    def refuse_windows(self, topic: DescTopic) -> None:
        """Break the rules of attributes, and of the sizes that follow from them."""
        topic.accepted(BASE, "the twin: no optional tensor", self.make(is_bare=True))
        if not self.is_average:
            topic.accepted(FULL, "the twin: every tensor", self.make(), flags="Optional")
        text = "the twin: five dimensions, three of them spatial"
        topic.accepted(CUBE, text, self.make(5, is_bare=True))
        for name, (field, value) in OPTIONS.items():
            topic.refuse(name, f"{field} is {value}", BASE, dashed(field), {field: value})
        for base, axes, count in ((BASE, 2, 0), (BASE, 2, 1), (BASE, 2, 3), (CUBE, 3, 2)):
            name, rule = f"dimensions-{count}-of-{axes}", "spatial-dimension-count"
            text = f"DimensionCount is {count} for tensors of {axes + 2} dimensions"
            topic.refuse(name, text, base, rule, {"DimensionCount": count})
        for name, (text, changed) in TOO_LARGE.items():
            topic.refuse(name, text, BASE, "window-fits", changed)
        for name, sizes in WRONG_OUTPUTS.items():
            text = f"the output should be {{1,2,2,2}}, and has sizes {sizes}"
            topic.refuse(f"output-{name}", text, BASE, "output-sizes", {"OutputTensor": sizes})
        for option, value in {"Strides": [2, 1], "EndPadding": [0, 1], "Dilations": [1, 2]}.items():
            text = f"{option} is {value}, the output as before"
            name, rule = f"output-{dashed(option)}", "output-sizes"
            topic.refuse(name, text, BASE, rule, {option: value})
        text = "the output has 5 dimensions, the input 4"
        changed = {"OutputTensor": [1, 2, 2, 2, 1]}
        topic.refuse("output-rank-5", text, BASE, "same-dimension-count", changed)

    def add_windows(self, topic: DescTopic, *levels: str) -> None:
        """Add descs of windows at these levels."""
        for level in levels:
            for rank, options in ((4, MIXTURE), (5, CUBES)):
                for dtype in RANGES:
                    text = f"stride, dilation and padding together, {dtype}, at {level}"
                    made = self.make(rank, is_bare=True, options=options, dtype=dtype)
                    name = f"desc-windows-{dashed(level)}-rank-{rank}-{dtype}"
                    topic.accepted(name, text, made, level, self.clause, "Level Windows Padding")

    def strides(self) -> StridedTopic:
        """Return the file of strides."""
        topic, made = StridedTopic(self.operator), self.make(is_bare=True)
        for name, (text, each) in LAYOUTS.items():
            topic.add(name, text, made, **each)
        overlapping = (8, 4, 2, 2), (0, 4, 0, 1), (8, 2, 2, 1)
        topic.overlap("nhwc-output", "OutputTensor", *overlapping)
        topic.shorten_buffer("nhwc-input", "InputTensor")
        cube = self.make(5, is_bare=True)
        ndhwc: dict[str, Sequence[int]] = {"InputTensor": (24, 1, 12, 6, 2)}
        ndhwc["OutputTensor"] = (16, 1, 8, 4, 2)
        topic.add("rank-5", "five dimensions, NDHWC", cube, **ndhwc)
        for name, (text, sizes, strides) in SHARED.items():
            row = sliding("uint8", -(-reach(sizes, strides) // 4) * 4, sizes, strides)
            given = {**self.make(is_bare=True, channels=2).inputs, "InputTensor": row}
            shared = self.pool(given, plain(2))
            topic.add(f"shared-{name}", text, shared, InputTensor=strides)
        return topic

    # -- planted bugs that survived all other vectors ------------------------------------------

    def add_survivors(
        self, topic: DescTopic, base: str, *groups: Sequence[str], wrong: str = "INT32"
    ) -> None:
        """Add descs that change tensors together which other rules make agree."""
        self._refuse_windows(topic, base)
        for level in TABLES[self.operator]:
            own, text = f"{base}-{dashed(level)}", f"the twin: five dimensions at {level}"
            dtype = "float32" if level == "2_1" else "uint8"
            whole = self.make(5, 1 if self.is_average else None, dtype=dtype)
            topic.accepted(own, text, whole, level, flags="Level")
            _refuse_ranks(topic, own, whole, level)
            for group in groups:
                self._refuse_types(topic, own, whole, level, group, wrong)
        self._repeat_one_element(topic)

    def _refuse_windows(self, topic: DescTopic, base: str) -> None:
        """Change the attributes together, and the padding with the input."""
        made, field = self.make(is_bare=True), "InputTensor"
        changed = {"DimensionCount": 1, **plain(1)}
        text = "one entry in every attribute, for tensors of four dimensions"
        name, rule = "dimensions-1-of-2", "spatial-dimension-count"
        topic.together(name, text, base, rule, "DimensionCount", changed)
        changed = made.described(field, [1, 2, 2, 0])
        changed |= {"StartPadding": [0, 1], "EndPadding": [0, 2]}
        text, rule = "an input without columns, and padding", "tensor-sizes-positive"
        topic.together("columns-0", text, base, rule, field, changed)
        strides = [16, 8, 3, 1]
        text = "a strided output whose buffer is 16 bytes longer than needed"
        least = made.described("OutputTensor", None, strides)["OutputTensor"]
        roomy = made.laid_out("OutputTensor", strides, least["TotalTensorSizeInBytes"] + 16)
        how = {"clause": "tensor-buffer", "flags": "Strided Buffer"}
        topic.accepted("desc-output-roomy", text, roomy, **how)

    def _refuse_types(
        self, topic: DescTopic, base: str, whole: Call, level: str, group: Sequence[str], wrong: str
    ) -> None:
        """Change the data types of tensors that agree."""
        changed: dict[str, Any] = {}
        for name in (each for each in group if whole.desc[each]):
            changed |= whole.described(name, data_type=wrong)
        text = f"{' and '.join(changed)}: {wrong}, at {level}"
        name = f"{dashed(level)}-{dashed(group[0])}-{wrong.lower()}"
        blamed = next(each for each in tensors(self.operator) if each in changed)
        topic.together(name, text, base, "tensor-data-type", blamed, changed)

    def _repeat_one_element(self, topic: DescTopic) -> None:
        """Repeat one element 2^32 times under strides so long that only one window fits."""
        options = windows((1, 1), strides=(65536, 65536))
        small = self.make(is_bare=True)
        given = {**small.inputs, "InputTensor": drawn("uint8", (1, 2, 1, 1), 3, 77, 77)}
        strided = self.pool(given, options).laid_out("InputTensor", [0] * 4)
        base, text = "desc-kills-long-strides", "the twin: an input that repeats one element"
        topic.accepted(base, text, strided, flags="Strided Windows")
        changed = strided.described("InputTensor", [1, 2, 65536, 65536], [0] * 4)
        name, text = "desc-input-elements-2-33", "the input repeats one element 2^33 times"
        rule, flags = "tensor-element-limit", "Invalid Layout"
        topic.refused(name, text, base, rule, "InputTensor", changed, flags=flags)


def plain(axes: int) -> dict[str, Any]:
    """Return the attributes of windows of two elements on the last axis."""
    return windows((1,) * (axes - 1) + (2,))


TOGETHER = ("InputTensor", "OutputTensor", "OutputIndicesTensor")
CUBES = windows((2, 1, 2), strides=(1, 2, 1), dilations=(1, 1, 2), start=(1, 0, 1), end=(0, 1, 1))
OPTIONS: dict[str, tuple[str, Any]] = {
    **{f"{dashed(n)}-too-few": (n, [low + 1]) for n, low in LOWEST.items()},
    **{f"last-{dashed(n)}-too-low": (n, [1, low - 1]) for n, low in LOWEST.items()},
}
TOO_LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "window-too-wide": ("a window of 4 columns over an input of 3", {"WindowSize": [1, 4]}),
    "window-too-high": ("a window of 3 rows over an input of 2", {"WindowSize": [3, 2]}),
    "dilated-too-wide": ("a dilated window that spans 4 of 3 columns", {"Dilations": [1, 3]}),
}
WRONG_OUTPUTS = {
    "batch": [2, 2, 2, 2],
    "channels": [1, 1, 2, 2],
    "height": [1, 2, 3, 2],
    "width": [1, 2, 2, 1],
}
NHWC: dict[str, Sequence[int]] = {"InputTensor": (12, 1, 6, 2), "OutputTensor": (8, 1, 4, 2)}
LAYOUTS: dict[str, tuple[str, dict[str, Sequence[int]]]] = {
    "nhwc-input": ("an input of {1,2,2,3} in NHWC", {"InputTensor": NHWC["InputTensor"]}),
    "nhwc-output": ("an output of {1,2,2,2} in NHWC", {"OutputTensor": NHWC["OutputTensor"]}),
    "nhwc": ("input and output in NHWC", NHWC),
    "rows-padded": (
        "rows of input and output padded to 8",
        dict.fromkeys(NHWC, (32, 16, 8, 1)),
    ),
    "transposed": ("columns before rows", {"InputTensor": (12, 6, 1, 2)}),
    "interleaved": ("an output that is not nested", {"OutputTensor": (24, 12, 3, 2)}),
}
SHARED = {
    "windows": ("the rows of an input are overlapping windows", (1, 2, 2, 3), (0, 3, 1, 1)),
    "channels": ("one channel, read twice", (1, 2, 2, 3), (0, 0, 3, 1)),
    "batch": ("one image, read three times", (3, 2, 2, 3), (0, 6, 3, 1)),
}


def _refuse_ranks(topic: DescTopic, base: str, whole: Call, level: str) -> None:
    """Change the rank of every tensor, and the attributes with it."""
    ranked, field = [name for name in TOGETHER if whole.desc.get(name)], "InputTensor"
    for rank, axes in ((6, 4), (3, 1)):
        sizes = [1, 2, *[2] * (axes - 1), 3], [1, 2, *[2] * (axes - 1), 2]
        changed = {"DimensionCount": axes, **plain(axes)}
        for name in ranked:
            changed |= whole.described(name, sizes[name != field])
        text = f"every tensor has {rank} dimensions, at {level}"
        name, rule = f"{dashed(level)}-rank-{rank}", "tensor-dimension-count"
        topic.together(name, text, base, rule, field, changed)
