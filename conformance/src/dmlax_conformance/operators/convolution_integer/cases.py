"""CONVOLUTION_INTEGER."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared.window_cases import (
    OPTIONS,
    SIDES,
    SURVIVOR_OPTIONS,
    WINDOWS,
    add_options,
    attributes,
    image,
    long_operands,
    output,
    parameter,
)
from ..topics import Files, Topic, bits, drawn, floats, ints

OPERATOR = "convolution_integer"
topics = Files(OPERATOR, Topic)


def operands(
    x: Tensor, w: Tensor, zx: Sequence[int] | None = None, zw: Sequence[int] | None = None
) -> dict[str, Tensor]:
    """Return the named tensors of a call."""
    given = {"InputTensor": x, "FilterTensor": w}
    if zx is not None:
        given["InputZeroPointTensor"] = parameter(zx, x.dtype)
    if zw is not None:
        given["FilterZeroPointTensor"] = parameter(zw, w.dtype)
    return given


def add(
    topic: Topic,
    name: str,
    comment: str,
    clause: str,
    given: Mapping[str, Tensor],
    options: Mapping[str, Any] | None = None,
    flags: str = "",
    requires: str = "",
) -> None:
    """Add a valid call."""
    options = options or attributes()
    asked = output(given["InputTensor"], given["FilterTensor"], options, "int32")
    topic.valid(name, comment, clause, given, asked, options, flags, requires)


@topics.file("sums")
def _sums(topic: Topic) -> None:
    for tx, (xl, xh) in SIDES.items():
        for tw, (wl, wh) in SIDES.items():
            x = ints(tx, (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xl, xl, xh, 1])
            w = ints(tw, (2, 2, 1, 2), [wl, wh, wh, wl, wh, wh, wl, wl])
            given = operands(x, w, [xl], [wh])
            text = f"{tx} input and {tw} filter at the ends of their ranges"
            add(topic, f"extremes-{tx}-{tw}", text, "CVI-1 CVI-4", given, flags="Extreme")
    x, w = image("uint8", (2, 3, 3, 3), 1), image("int8", (3, 3, 2, 2), 2)
    points: dict[str, tuple[Sequence[int] | None, Sequence[int] | None]] = {
        "no-zero-points": (None, None),
        "input-zero-point": ([200], None),
        "filter-zero-point": (None, [-100]),
        "filter-zero-point-each": ([3], [-100, 0, 100]),
    }
    for name, (zx, zw) in points.items():
        flags = "Optional PerChannel" if "each" in name else "Optional"
        text = f"optional tensors: {name.replace('-', ' ')}"
        add(topic, name, text, "CVI-1 CVI-5", operands(x, w, zx, zw), flags=flags)
    for channels in (1, 3, 7, 13):
        pair = image("int8", (1, channels, 1, 4), channels), image("int8", (3, channels, 1, 1), 3)
        text = f"sums of {channels} products"
        add(
            topic, f"contraction-{channels}", text, "CVI-1", operands(*pair), flags="OddContraction"
        )
    row = [*range(-100, 60, 10)]
    for outputs in (1, 3):
        x, w = image("int8", (1, 4, 4, 4), 4), ints("int8", (outputs, 4, 2, 2), row * outputs)
        text = "sums of 16 products, from which the zero point takes the same for every output"
        add(topic, f"filters-alike-{outputs}", text, "CVI-1 CVI-4", operands(x, w, [5]))
    _large(topic)


def _large(topic: Topic) -> None:
    x = from_recipe("uint8", (1, 300, 1, 2), Recipe(5, 250, 255))
    w = from_recipe("uint8", (2, 300, 1, 1), Recipe(6, 250, 255))
    text = "300 large products: odd sums of more than 24 bits"
    add(topic, "long-sum", text, "CVI-1", operands(x, w), flags="Large LargeAccumulator")
    x = from_recipe("uint8", (1, 33_100, 1, 1), Recipe(0, 255, 255))
    text = "33,100 products of 255 * 255 leave 32 bits"
    given = operands(x, x)
    add(topic, "products-wrap", text, "CVI-6", given, None, "Overflow Large", "overflow:wrap")


@topics.file("windows")
def _windows(topic: Topic) -> None:
    x = image("int8", (1, 2, 4, 5), 31)
    for name, (text, options, kernel) in WINDOWS.items():
        w = image("uint8", (2, 2, *kernel), 32 + len(name))
        given = operands(x, w, [-101], [3, 250])
        flags = "Windows Padding" if "start" in options or "end" in options else "Windows"
        add(topic, name, text, "CVI-2 CVI-3", given, attributes(**options), flags=flags)
    groups = {"groups-2": (4, 4, 2), "depthwise": (3, 3, 3), "depthwise-multiplier-2": (2, 4, 2)}
    for name, (channels, outs, count) in groups.items():
        given = operands(
            image("uint8", (1, channels, 3, 3), 61),
            image("int8", (outs, channels // count, 2, 2), 62),
            [9],
        )
        text = f"{count} groups, {channels} channels in and {outs} out"
        add(topic, name, text, "CVI-3", given, attributes(groups=count), flags="Groups")
    line = attributes((2,), (2,), (1,), (3,), 1)
    given = operands(image("uint8", (2, 2, 7), 55), image("int8", (3, 2, 2), 56), [131])
    text = "one spatial dimension with stride, dilation and padding"
    add(topic, "rank-3", text, "CVI-7 CVI-3", given, line, flags="Rank3 Padding Windows")


@topics.file("invalid")
def _invalid(topic: Topic) -> None:
    given = operands(image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12), [7], [1])
    add(topic, "twin", "the twin: every tensor is present", "CVI-1", given, flags="Optional")
    for code, cases in _wrong().items():
        topic.wrong("twin", code, "{field} is {dtype} with sizes {sizes}", cases)
    add_options(topic, "twin", "CVI-3", OPTIONS)
    outs = {"FilterTensor": image("int8", (3, 1, 2, 2), 1)}
    error = ("sizes", "GroupCount")
    text = "two groups cannot share three output channels"
    two = {"GroupCount": 2}
    topic.invalid("groups-do-not-divide", text, "CVI-3", "twin", error, outs, two)


def _wrong() -> dict[str, dict[str, tuple[str, str, Tensor]]]:
    types = {
        "float-input": ("CVI-4", "InputTensor", floats("float32", (1, 2, 3, 3), range(18))),
        "complex-input": (
            "CVI-4",
            "InputTensor",
            bits("complex64", (1, 2, 3, 3), [0x3F800000] * 18),
        ),
        "int32-filter": ("CVI-4", "FilterTensor", drawn("int32", (2, 2, 2, 2), 1, -9, 9)),
        "int8-input-zero-point": ("CVI-4", "InputZeroPointTensor", parameter([7], "int8")),
        "int32-filter-zero-point": ("CVI-4", "FilterZeroPointTensor", parameter([1], "int32")),
    }
    ranks = {
        "input-rank-2": ("CVI-7", "InputTensor", image("uint8", (2, 9), 1)),
        "filter-rank-5": ("CVI-7", "FilterTensor", image("int8", (2, 2, 2, 2, 1), 1)),
    }
    sizes = {
        "filter-channels-3": ("CVI-3", "FilterTensor", image("int8", (2, 3, 2, 2), 1)),
        "kernel-too-wide": ("CVI-3", "FilterTensor", image("int8", (2, 2, 2, 4), 1)),
        "input-zero-point-each": ("CVI-4", "InputZeroPointTensor", parameter([7, 7], "uint8")),
        "filter-zero-point-3": ("CVI-5", "FilterZeroPointTensor", parameter([1, 1, 1], "int8")),
    }
    return {"data_type": types, "dimension_count": ranks, "sizes": sizes}


@topics.file("kills")
def _survivors(topic: Topic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    x, w = image("uint8", (3, 3, 3, 3), 101), image("int8", (3, 3, 3, 3), 102)
    ring = attributes(start=(1, 1), end=(1, 1))
    text = "every axis of every tensor has 3 places, so that swapped axes keep all sizes"
    given = operands(x, w, [120], [-50, 0, 90])
    clause, flags = "CVI-1 CVI-2 CVI-3 CVI-5", "PerChannel Padding"
    add(topic, "every-axis-3", text, clause, given, ring, flags=flags)
    text = "4,099 products of both signs, within 32 bits"
    given = operands(*long_operands("int8", "uint8"), [-3])
    add(topic, "contraction-4099", text, "CVI-1", given, flags="Large OddContraction")
    given = operands(image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12), [7], [1])
    base = "twin-kills"
    text = "the twin: every tensor is present"
    add(topic, base, text, "CVI-1", given, flags="Optional")
    add_options(topic, base, "CVI-3", SURVIVOR_OPTIONS)
    _integer_sizes(topic, base)


def _integer_sizes(topic: Topic, base: str) -> None:
    tall = {"FilterTensor": image("int8", (2, 2, 4, 2), 1)}
    text, error = "the kernel is higher than the padded input", ("sizes", "FilterTensor")
    topic.invalid("kernel-too-high", text, "CVI-3", base, error, tall)
    text = "the dilated kernel spans 4 of 3 columns"
    wide = {"Dilations": [1, 3]}
    topic.invalid("dilated-kernel-too-wide", text, "CVI-3", base, error, attributes=wide)
    text = "the filter has fewer channels than the input"
    narrow = {"FilterTensor": image("int8", (2, 1, 2, 2), 1)}
    topic.invalid("filter-channels-1", text, "CVI-3", base, error, narrow)
    ranks = {
        "input-rank-5": ("InputTensor", image("uint8", (1, 2, 3, 3, 1), 1)),
        "filter-rank-3": ("FilterTensor", image("int8", (2, 2, 4), 1)),
    }
    for name, (field, tensor) in ranks.items():
        text, error = f"{field} has rank {len(tensor.sizes)}", ("dimension_count", field)
        topic.invalid(name, text, "CVI-7", base, error, {field: tensor})
    base = "two-channels-in-three-out"
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    text = "the twin: filter zero points for each of three output channels"
    given = operands(x, w, [120], [1, 2, 3])
    add(topic, base, text, "CVI-5", given, flags="PerChannel")
    field = "FilterZeroPointTensor"
    text = "FilterZeroPointTensor has one value for each input channel"
    tensor, error = parameter([1, 2], "int8"), ("sizes", field)
    topic.invalid("filter-zero-point-by-input", text, "CVI-5", base, error, {field: tensor})
