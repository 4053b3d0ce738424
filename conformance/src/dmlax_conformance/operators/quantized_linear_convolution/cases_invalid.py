"""QUANTIZED_LINEAR_CONVOLUTION: calls that break one rule."""

from collections.abc import Mapping
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared.window_cases import (
    OPTIONS,
    SURVIVOR_OPTIONS,
    add_options,
    attributes,
    image,
    long_operands,
    output,
    parameter,
    scale_words,
    scales,
)
from ..topics import Files, Topic, bits, drawn, floats, ints
from .cases import OPERATOR, add, operands

topics = Files(OPERATOR, Topic)

BASE = "twin-everything"


def _base(topic: Topic, name: str) -> None:
    """Add the call that the others change: every tensor present, two channels in and out."""
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = operands(x, w, [120], [1], [5, -5], [100], sw=[0.03125, 0.0625])
    add(topic, name, "the twin: every tensor is present", "QLC-1", given, flags="Optional")


@topics.file("invalid-types")
def _types(topic: Topic) -> None:
    base = f"{BASE}-types"
    _base(topic, base)
    wrong = {
        "float-input": ("QLC-10", "InputTensor", floats("float32", (1, 2, 3, 3), range(18))),
        "int16-input": ("QLC-10", "InputTensor", drawn("int16", (1, 2, 3, 3), 1, -9, 9)),
        "complex-input": (
            "QLC-10",
            "InputTensor",
            bits("complex64", (1, 2, 3, 3), [0x3F800000] * 18),
        ),
        "int32-filter": ("QLC-10", "FilterTensor", drawn("int32", (2, 2, 2, 2), 1, -9, 9)),
        "float16-input-scale": (
            "QLC-10",
            "InputScaleTensor",
            floats("float16", (1, 1, 1, 1), [0.5]),
        ),
        "float16-filter-scale": (
            "QLC-10",
            "FilterScaleTensor",
            floats("float16", (1, 2, 1, 1), [0.5, 1]),
        ),
        "int32-output-scale": ("QLC-10", "OutputScaleTensor", ints("int32", (1, 1, 1, 1), [1])),
        "float-bias": ("QLC-10", "BiasTensor", floats("float32", (1, 2, 1, 1), [5, -5])),
        "int8-bias": ("QLC-10", "BiasTensor", ints("int8", (1, 2, 1, 1), [5, -5])),
        "int8-input-zero-point": ("QLC-10", "InputZeroPointTensor", parameter([7], "int8")),
        "uint8-filter-zero-point": ("QLC-10", "FilterZeroPointTensor", parameter([1], "uint8")),
        "int8-output-zero-point": ("QLC-10", "OutputZeroPointTensor", parameter([100], "int8")),
        "int32-output-zero-point": ("QLC-10", "OutputZeroPointTensor", parameter([100], "int32")),
    }
    topic.wrong(base, "data_type", "{field} is {dtype}", wrong)
    _output_type(topic)


def _output_type(topic: Topic) -> None:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    base = "no-output-zero-point"
    add(topic, base, "the twin: no output zero point", "QLC-10", operands(x, w), flags="Optional")
    outputs = {"OutputTensor": Request("int16", (1, 2, 2, 2))}
    text = "an INT16 output is asked for"
    error = ("data_type", "OutputTensor")
    topic.invalid("int16-output", text, "QLC-10", base, error, outputs=outputs)


@topics.file("invalid-sizes")
def _sizes(topic: Topic) -> None:
    base = f"{BASE}-sizes"
    _base(topic, base)
    ranks = {
        "input-rank-2": ("QLC-14", "InputTensor", image("uint8", (2, 9), 1)),
        "input-rank-5": ("QLC-14", "InputTensor", image("uint8", (1, 2, 3, 3, 1), 1)),
        "filter-rank-3": ("QLC-14", "FilterTensor", image("int8", (2, 2, 4), 1)),
        "filter-rank-5": ("QLC-14", "FilterTensor", image("int8", (2, 2, 2, 2, 1), 1)),
    }
    topic.wrong(base, "dimension_count", "{field} has rank {rank}", ranks)
    topic.wrong(base, "sizes", "{field} has sizes {sizes}", _wrong_sizes())
    _group_sizes(topic)
    _fit(topic, base)


def _wrong_sizes() -> dict[str, tuple[str, str, Tensor]]:
    half = scales([0.5, 0.5])
    square = floats("float32", (2, 2, 1, 1), [1, 1, 1, 1])
    return {
        "filter-channels-3": ("QLC-9", "FilterTensor", image("int8", (2, 3, 2, 2), 1)),
        "filter-channels-1": ("QLC-9", "FilterTensor", image("int8", (2, 1, 2, 2), 1)),
        "input-scale-each": ("QLC-7", "InputScaleTensor", half),
        "output-scale-each": ("QLC-7", "OutputScaleTensor", half),
        "input-zero-point-each": ("QLC-7", "InputZeroPointTensor", parameter([7, 7], "uint8")),
        "output-zero-point-each": ("QLC-7", "OutputZeroPointTensor", parameter([7, 7], "uint8")),
        "filter-scale-3": ("QLC-7", "FilterScaleTensor", scales([0.5, 0.5, 0.5])),
        "filter-scale-2x2": ("QLC-7", "FilterScaleTensor", square),
        "filter-zero-point-3": ("QLC-7", "FilterZeroPointTensor", parameter([1, 1, 1], "int8")),
        "bias-3": ("QLC-4", "BiasTensor", parameter([5, -5, 0], "int32")),
        "bias-4": ("QLC-4", "BiasTensor", parameter([5, -5, 0, 1], "int32")),
    }


def _group_sizes(topic: Topic) -> None:
    x = image("uint8", (1, 4, 2, 2), 13)
    given = operands(x, image("int8", (4, 2, 1, 1), 14))
    base = "groups-2-of-4"
    add(topic, base, "the twin: two groups", "QLC-9", given, attributes(groups=2), flags="Groups")
    cases: dict[str, tuple[str, str, dict[str, Tensor], dict[str, Any]]] = {
        "groups-do-not-divide-outputs": (
            "GroupCount",
            "K = 3",
            {"FilterTensor": _filter(3, 2)},
            {},
        ),
        "groups-miss-channels": (
            "FilterTensor",
            "4 filter channels",
            {"FilterTensor": _filter(4, 4)},
            {},
        ),
        "groups-4-filter-2": ("FilterTensor", "four groups, 8 channels", {}, {"GroupCount": 4}),
        "groups-1-filter-2": ("FilterTensor", "one group, 2 channels", {}, {"GroupCount": 1}),
    }
    for name, (field, text, inputs, options) in cases.items():
        text = f"channels do not fit the groups: {text}"
        topic.invalid(
            name, text, "QLC-9", base, ("sizes", field), inputs, options, flags="Invalid Groups"
        )


def _filter(outputs: int, channels: int) -> Tensor:
    return image("int8", (outputs, channels, 1, 1), 15)


def _fit(topic: Topic, base: str) -> None:
    error = ("sizes", "FilterTensor")
    tall = {"FilterTensor": image("int8", (2, 2, 4, 2), 1)}
    text = "the kernel is higher than the padded input"
    topic.invalid("kernel-too-high", text, "QLC-8", base, error, tall)
    text = "the dilated kernel spans 4 of 3 columns"
    wide = {"Dilations": [1, 3]}
    topic.invalid("dilated-kernel-too-wide", text, "QLC-8", base, error, attributes=wide)


@topics.file("invalid-options")
def _options(topic: Topic) -> None:
    base = f"{BASE}-options"
    _base(topic, base)
    add_options(topic, base, "QLC-8 QLC-9", OPTIONS)


WORDS = {
    "zero": 0,
    "minus-zero": 0x80000000,
    "nan": 0x7FC00000,
    "infinity": 0x7F800000,
    "minus-infinity": 0xFF800000,
}


@topics.file("invalid-values")
def _values(topic: Topic) -> None:
    base = f"{BASE}-values"
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = operands(x, w, sw=[0.03125, 0.0625])
    asked = output(x, w, attributes(), "uint8")
    text = "the twin: scales that are known and fine"
    flags, need = "KnownValue", "values:known"
    topic.valid(base, text, "QLC-13", given, asked, attributes(), flags, need)
    for field, wrong in _wrong_scales().items():
        for name, tensor in wrong.items():
            label = field.removesuffix("Tensor").replace("Scale", "-scale").lower()
            inputs = {field: tensor}
            error, text = ("value", field), f"{field} is {name}"
            flags = "Invalid KnownValue"
            name = f"{label}-{name}"
            topic.invalid(name, text, "QLC-13", base, error, inputs, flags=flags, requires=need)


def _wrong_scales() -> Mapping[str, Mapping[str, Tensor]]:
    one = {name: scale_words([word]) for name, word in WORDS.items()}
    second = {f"second-{name}": scale_words([0x3D000000, word]) for name, word in WORDS.items()}
    return {
        "InputScaleTensor": one,
        "FilterScaleTensor": {
            k: second[k] for k in ("second-zero", "second-nan", "second-infinity")
        },
        "OutputScaleTensor": one,
    }


@topics.file("kills")
def _survivors(topic: Topic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    x, w = image("uint8", (3, 3, 3, 3), 101), image("int8", (3, 3, 3, 3), 102)
    bias, every_scale, points = [90_000, -70_000, 30_000], [0.03125, 0.05, 0.0078125], [-50, 0, 90]
    given = operands(x, w, [120], points, bias, [128], sw=every_scale, sy=[4])
    ring = attributes(start=(1, 1), end=(1, 1))
    text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
    clause = "QLC-1 QLC-2 QLC-4 QLC-7 QLC-8"
    add(topic, "every-axis-3", text, clause, given, ring, flags="PerChannel Padding")
    given = operands(*long_operands("uint8", "int8"), [128], None, None, [128], sy=[4])
    text = "4,099 products of both signs, within 32 bits"
    flags = "Large OddContraction"
    add(topic, "contraction-4099", text, "QLC-2", given, flags=flags)
    base = f"{BASE}-kills"
    _base(topic, base)
    add_options(topic, base, "QLC-8", SURVIVOR_OPTIONS)
    tensor = parameter([5], "int32")
    error = ("sizes", "BiasTensor")
    text = "one bias for two output channels"
    topic.invalid("bias-1", text, "QLC-4", base, error, {"BiasTensor": tensor})
    _by_input(topic)
    _first_scale(topic)


def _by_input(topic: Topic) -> None:
    """Give one scale for each input channel, of which there are fewer."""
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    given = operands(x, w, [120], [1, 2, 3], None, [100], sw=[0.03125, 0.0625, 0.125])
    base = "two-channels-in-three-out"
    text = "the twin: filter parameters for each of three output channels"
    add(topic, base, text, "QLC-7", given, flags="PerChannel")
    wrong = {
        "FilterScaleTensor": scale_words([0x3D000000, 0x3D800000]),
        "FilterZeroPointTensor": parameter([1, 2], "int8"),
    }
    for field, tensor in wrong.items():
        name = "filter-scale-by-input" if "Scale" in field else "filter-zero-point-by-input"
        text = f"{field} has one value for each input channel"
        topic.invalid(name, text, "QLC-7", base, ("sizes", field), {field: tensor})


def _first_scale(topic: Topic) -> None:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = operands(x, w, sw=[0.03125, 0.0625])
    base, flags, need = "known-filter-scales", "KnownValue", "values:known"
    text = "the twin: filter scales that are known and fine"
    add(topic, base, text, "QLC-13", given, flags=flags, requires=need)
    tensor = {"FilterScaleTensor": scale_words([0, 0x3D000000])}
    error, text = ("value", "FilterScaleTensor"), "the first of two filter scales is zero"
    flags = "Invalid KnownValue"
    name = "filter-scale-first-zero"
    topic.invalid(name, text, "QLC-13", base, error, tensor, flags=flags, requires=need)
