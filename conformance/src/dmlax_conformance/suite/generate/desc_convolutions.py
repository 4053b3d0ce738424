"""The two convolutions by descs: their rules, and what each level's page allows."""

from collections.abc import Iterator
from typing import Any

from ...format.descs import tensor_desc
from ...operators._shared.window_cases import attributes
from ...operators.topics import PREFIXES
from .desc_builder import Call, DescTopic
from .desc_calls import INTEGER, QUANTIZED, integer, quantized

FULL, BARE, GROUPS, LINE = (f"desc-rules-{end}" for end in ("full", "bare", "groups", "line"))
BATCH = "InputTensor FilterTensor OutputTensor"


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    for operator, make in ((QUANTIZED, quantized), (INTEGER, integer)):
        yield _tensors(operator, make())
        yield _windows(operator, make(is_bare=True), make(is_bare=True, groups=2), make(3))
    yield _quantized_levels()
    yield _integer_levels()


def _prefix(topic: DescTopic) -> str:
    return PREFIXES[topic.operator].rstrip("-")


def _tensors(operator: str, made: Call) -> DescTopic:
    """Break what the tensors owe each other."""
    topic = DescTopic(operator, "desc-parameters")
    topic.accepted(FULL, "the twin: every tensor is present", made, flags="Optional")
    for field, pair in _pairs(operator).items():
        wrong = "INT8" if made.desc[pair]["DataType"] == "UINT8" else "UINT8"
        rule = f"{_prefix(topic)}-{_dashed(field)}-data-type"
        changed = {field: tensor_desc(wrong, made.desc[field]["Sizes"])}
        text, error = f"{field} is {wrong}, {pair} is not", ("data_type", field)
        topic.refused(f"desc-{_dashed(field)}-type", text, FULL, rule, error, changed)
    for name, (rule, field, sizes) in _wrong_sizes(operator).items():
        changed = {field: tensor_desc(made.desc[field]["DataType"], sizes)}
        text, error = f"{field} has sizes {sizes}", ("sizes", field)
        rule = f"{_prefix(topic)}-{rule}"
        topic.refused(f"desc-{name}", text, FULL, rule, error, changed)
    if operator == INTEGER:
        changed = {"FilterZeroPointTensor": tensor_desc("INT8", [1, 2, 1])}
        text = "the zero points have 4 and 3 dimensions"
        rule, error = (
            "intconv-zero-points-dimension-count",
            ("dimension_count", "FilterZeroPointTensor"),
        )
        topic.refused("desc-zero-points-differ", text, FULL, rule, error, changed)
    return topic


def _pairs(operator: str) -> dict[str, str]:
    pairs = {"InputZeroPointTensor": "InputTensor", "FilterZeroPointTensor": "FilterTensor"}
    return pairs | ({"OutputZeroPointTensor": "OutputTensor"} if operator == QUANTIZED else {})


def _dashed(field: str) -> str:
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in field.removesuffix("Tensor"))
    return words.lstrip("-")


def _wrong_sizes(operator: str) -> dict[str, tuple[str, str, list[int]]]:
    one_each = ["InputZeroPointTensor"]
    per_channel = ["FilterZeroPointTensor"]
    if operator == QUANTIZED:
        one_each += ["InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor"]
        per_channel += ["FilterScaleTensor"]
    wrong = {
        f"{_dashed(field)}-each": (f"{_dashed(field)}-one", field, [1, 2, 1, 1])
        for field in one_each
    }
    for field in per_channel:
        for end, sizes in (("3", [1, 3, 1, 1]), ("axis-0", [2, 1, 1, 1]), ("axis-3", [1, 1, 1, 2])):
            wrong[f"{_dashed(field)}-{end}"] = (f"{_dashed(field)}-channels", field, sizes)
    if operator == QUANTIZED:
        for end, sizes in (("1", [1, 1, 1, 1]), ("axis-0", [2, 1, 1, 1]), ("whole", [1, 2, 2, 2])):
            wrong[f"bias-{end}"] = ("bias-channels", "BiasTensor", sizes)
    return wrong


def _windows(operator: str, bare: Call, grouped: Call, line: Call) -> DescTopic:
    """Break what the windows ask for."""
    topic = DescTopic(operator, "desc-windows")
    topic.accepted(BARE, "the twin: no optional tensor", bare)
    topic.accepted(GROUPS, "the twin: two groups of one channel", grouped, flags="Groups")
    topic.accepted(LINE, "the twin: three dimensions, one of them spatial", line, flags="Rank3")
    _options(topic)
    _fits(topic, bare)
    _grouping(topic)
    _counts(topic, line)
    return topic


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
        rule, error = f"{_prefix(topic)}-{_dashed(field)}", ("option", field)
        text = f"{field} is {value}"
        topic.refused(f"desc-{name}", text, BARE, rule, error, {field: value})
    for twin, counts in ((BARE, (0, 1, 3)), (LINE, (2,))):
        for count in counts:
            rule = f"{_prefix(topic)}-spatial-dimension-count"
            error = ("dimension_count", "DimensionCount")
            name = f"desc-dimensions-{count}-of-{2 if twin == BARE else 1}"
            text = f"DimensionCount is {count} for tensors of {4 if twin == BARE else 3} dimensions"
            topic.refused(name, text, twin, rule, error, {"DimensionCount": count})


def _fits(topic: DescTopic, made: Call) -> None:
    """Let the kernel be too large, and the output have the wrong sizes."""
    p = _prefix(topic)
    rule, error = f"{p}-kernel-fits", ("sizes", "FilterTensor")
    text = "a kernel of 4 columns over an input of 3"
    changed = {"FilterTensor": tensor_desc("INT8", [2, 2, 1, 4])}
    topic.refused("desc-kernel-too-wide", text, BARE, rule, error, changed)
    text = "a dilated kernel that spans 4 of 3 columns"
    topic.refused("desc-dilated-too-wide", text, BARE, rule, error, {"Dilations": [1, 3]})
    rule, error = f"{p}-output-sizes", ("sizes", "OutputTensor")
    data_type = made.desc["OutputTensor"]["DataType"]
    for name, sizes in {
        "batch": [2, 2, 2, 2],
        "channels": [1, 1, 2, 2],
        "height": [1, 2, 3, 2],
        "width": [1, 2, 2, 1],
    }.items():
        changed = {"OutputTensor": tensor_desc(data_type, sizes)}
        text = f"the output should be {{1,2,2,2}}, and has sizes {sizes}"
        topic.refused(f"desc-output-{name}", text, BARE, rule, error, changed)
    for field, value in (("Strides", [2, 1]), ("EndPadding", [0, 1])):
        name, text = f"desc-output-{_dashed(field)}", f"{field} is {value}, the output as before"
        topic.refused(name, text, BARE, rule, error, {field: value})


def _grouping(topic: DescTopic) -> None:
    p = _prefix(topic)
    rule, error = f"{p}-channels", ("sizes", "FilterTensor")
    for twin, count in ((BARE, 2), (GROUPS, 1)):
        text = f"{count} groups, which the filter's channels do not give"
        name = f"desc-channels-groups-{count}"
        topic.refused(name, text, twin, rule, error, {"GroupCount": count})
    changed = {"FilterTensor": tensor_desc("INT8", [2, 3, 1, 2])}
    topic.refused("desc-channels-3", "a filter of 3 channels", BARE, rule, error, changed)
    data_type = topic.made(GROUPS).desc["OutputTensor"]["DataType"]
    changed = {
        "FilterTensor": tensor_desc("INT8", [3, 1, 1, 2]),
        "OutputTensor": tensor_desc(data_type, [1, 3, 2, 2]),
    }
    rule, error = f"{p}-groups-divide", ("sizes", "GroupCount")
    extra = {"FilterScaleTensor": tensor_desc("FLOAT32", [1, 1, 1, 1])} if p == "qconv" else {}
    text = "two groups cannot share three output channels"
    topic.refused("desc-groups-divide", text, GROUPS, rule, error, changed | extra)


def _counts(topic: DescTopic, line: Call) -> None:
    """Mix 3 and 4 dimensions."""
    names = [name for name in (*BATCH.split()[1:], "BiasTensor") if line.desc.get(name)]
    for name in names:
        old = line.desc[name]
        changed = {name: tensor_desc(old["DataType"], [*old["Sizes"], 1])}
        rule = f"{_prefix(topic)}-same-dimension-count"
        text, error = f"{name} has 4 dimensions, the input 3", ("dimension_count", name)
        topic.refused(f"desc-{_dashed(name)}-rank-4", text, LINE, rule, error, changed)


MIXTURE = attributes((2, 1), (1, 2), (1, 0), (2, 3))


def _convolutions(topic: DescTopic, mixture: Call, levels: tuple[str, ...]) -> None:
    for level in levels:
        name = f"desc-convolution-{level.replace('_', '-')}"
        text = f"stride, dilation and padding together, at {level}"
        clause = "CVI-3" if topic.operator == INTEGER else "QLC-8"
        topic.accepted(name, text, mixture, level, clause, "Level Windows Padding")


def _step(
    topic: DescTopic, name: str, text: str, made: Call, levels: tuple[str, str], field: str
) -> None:
    """Add one desc at two levels: the lower one does not have the rank of a tensor."""
    low, high = levels
    twin, flags = f"desc-{name}-{high.replace('_', '-')}", "Invalid Level"
    topic.accepted(twin, f"the twin: {text}, from {high} on", made, high, flags="Level")
    rule, error = "tensor-dimension-count", ("dimension_count", field)
    whole = f"desc-{name}-{low.replace('_', '-')}"
    topic.refused(whole, f"{text}, at {low}", twin, rule, error, level=low, flags=flags)


def _quantized_levels() -> DescTopic:
    topic = DescTopic(QUANTIZED, "desc-levels")
    _convolutions(topic, quantized(options=MIXTURE), ("2_1", "4_0", "5_2"))
    three = quantized(3)
    _step(topic, "rank-3", "three dimensions", three, ("3_1", "4_0"), "InputTensor")
    mixed = quantized(4, 1, 4)
    text = "parameters of rank 1, but for the filter scale"
    _step(topic, "parameters-1", text, mixed, ("3_1", "4_0"), "InputScaleTensor")
    for rank in (1, 2):
        text = f"a filter scale of rank {rank}"
        made = quantized(4, 4, rank)
        levels = ("4_0", "5_2") if rank == 1 else ("5_1", "5_2")
        _step(topic, f"filter-scale-{rank}", text, made, levels, "FilterScaleTensor")
    text = "parameters of rank 3 for tensors of rank 4, at 4_0"
    clause = "tensor-dimension-count"
    topic.accepted("desc-parameters-3", text, quantized(4, 3), "4_0", clause, "Level")
    text = "parameters of rank 4 for tensors of rank 3, at 4_0"
    topic.accepted("desc-parameters-4", text, quantized(3, 4), "4_0", clause, "Level")
    return topic


def _integer_levels() -> DescTopic:
    topic = DescTopic(INTEGER, "desc-levels")
    _convolutions(topic, integer(options=MIXTURE), ("2_1", "4_0", "5_2"))
    _step(topic, "rank-3", "three dimensions", integer(3), ("3_1", "4_0"), "InputTensor")
    for rank in (1, 2, 3):
        text = f"zero points of rank {rank} for tensors of rank 4"
        made, field = integer(4, rank), "InputZeroPointTensor"
        _step(topic, f"zero-points-{rank}", text, made, ("3_1", "4_0"), field)
    return topic
