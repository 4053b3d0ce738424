"""QUANTIZED_LINEAR_CONVOLUTION: data types, parameters, windows, groups and long sums."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared.convolution import Windows, accumulators
from .._shared.window_cases import SIDES, WINDOWS, attributes, image, output, parameter, scales
from ..topics import Files, Topic, ints

OPERATOR = "quantized_linear_convolution"
topics = Files(OPERATOR, Topic)
Values = Sequence[int] | None


def operands(
    x: Tensor,
    w: Tensor,
    zx: Values = None,
    zw: Values = None,
    bias: Values = None,
    zy: Values = None,
    dtype: str = "uint8",
    sx: Sequence[float] = (0.0625,),
    sw: Sequence[float] = (0.03125,),
    sy: Sequence[float] = (1.0,),
) -> dict[str, Tensor]:
    """Return the named tensors of a call; what is None stays out."""
    optional = {
        "InputZeroPointTensor": (zx, x.dtype),
        "FilterZeroPointTensor": (zw, w.dtype),
        "BiasTensor": (bias, "int32"),
        "OutputZeroPointTensor": (zy, dtype),
    }
    given = {"InputTensor": x, "FilterTensor": w}
    given |= {"InputScaleTensor": scales(sx), "FilterScaleTensor": scales(sw)}
    given |= {"OutputScaleTensor": scales(sy)}
    found = {name: (values, own) for name, (values, own) in optional.items() if values is not None}
    return given | {name: parameter(values or (), own) for name, (values, own) in found.items()}


def add(
    topic: Topic,
    name: str,
    comment: str,
    clause: str,
    given: Mapping[str, Tensor],
    options: Mapping[str, Any] | None = None,
    dtype: str = "uint8",
    flags: str = "",
    requires: str = "",
) -> None:
    """Add a valid call."""
    options = options or attributes()
    asked = output(given["InputTensor"], given["FilterTensor"], options, dtype)
    topic.valid(name, comment, clause, given, asked, options, flags, requires)


@topics.file("data-types")
def _data_types(topic: Topic) -> None:
    for tx in SIDES:
        for tw in SIDES:
            for ty in SIDES:
                _extremes(topic, tx, tw, ty)


def _extremes(topic: Topic, tx: str, tw: str, ty: str) -> None:
    """Both ends of every range meet: ends of the input, of the filter, and of the zero points."""
    (xl, xh), (wl, wh), (yl, yh) = SIDES[tx], SIDES[tw], SIDES[ty]
    x = ints(tx, (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xl, xl, xh, 1])
    w = ints(tw, (3, 2, 1, 2), [wl, wh, wh, wl, wh, wh, wh, wh, wl, wl, wl, 1])
    given = operands(x, w, [xl], [wh], [0, -70000, 90000], [(yl + yh) // 2], ty, sy=[4])
    name = f"extremes-{tx}-{tw}-{ty}"
    text = f"{tx} input, {tw} filter, {ty} output at the ends of their ranges"
    add(topic, name, text, "QLC-2 QLC-10", given, None, ty, "Extreme")
    given = operands(x, w, dtype=ty, sy=[4])
    name, text = f"no-zero-points-{tx}-{tw}-{ty}", "the same operands, all optional tensors absent"
    add(topic, name, text, "QLC-10 QLC-11", given, None, ty, "Extreme Optional")


PRESENT: dict[str, dict[str, Values]] = {
    "none": {},
    "input-zero-point": {"zx": [120]},
    "filter-zero-point": {"zw": [-5]},
    "bias": {"bias": [50000, -30000]},
    "output-zero-point": {"zy": [100]},
    "all": {"zx": [120], "zw": [-5], "bias": [50000, -30000], "zy": [100]},
}


@topics.file("parameters")
def _parameters(topic: Topic) -> None:
    x, w = image("uint8", seed=21), image("int8", (2, 2, 2, 2), seed=22)
    for name, present in PRESENT.items():
        text = f"optional tensors that are present: {name}"
        clause = "QLC-1 QLC-4 QLC-11" if name == "all" else "QLC-1 QLC-11"
        given = operands(x, w, sy=[4], **present)  # type: ignore[arg-type]
        add(topic, f"optional-{name}", text, clause, given, flags="Optional")
    _granularity(topic, x)


def _granularity(topic: Topic, x: Tensor) -> None:
    w = image("int8", (4, 2, 2, 2), seed=23)
    every_scale, every_zero = [0.03125, 0.05, 0.0078125, 0.1], [-5, 0, 60, -70]
    for scale, sw in {"one": every_scale[:1], "each": every_scale}.items():
        for zero, zw in {"one": every_zero[:1], "each": every_zero}.items():
            given = operands(x, w, [120], zw, None, [9], sw=sw)
            name = f"scale-{scale}-zero-point-{zero}"
            text = f"filter scale: {scale}; filter zero point: {zero}"
            add(topic, name, text, "QLC-7", given, flags="PerChannel")
    given = operands(x, w, [120], every_zero, None, [9], sw=every_scale)
    given["FilterScaleTensor"] = scales(every_scale, rank=1)
    given["FilterZeroPointTensor"] = parameter(every_zero, "int8", rank=1)
    given["InputScaleTensor"] = scales([0.0625], rank=1)
    given["OutputZeroPointTensor"] = parameter([9], "uint8", rank=1)
    text = "parameters of rank 1: {K} and {1}"
    add(topic, "parameters-rank-1", text, "QLC-7", given, flags="PerChannel")
    given = operands(x, image("int8", (1, 2, 2, 2), 24), [7], [3], [12], [9])
    add(
        topic, "one-output-channel", "K = 1, every tensor present", "QLC-7", given, flags="Optional"
    )
    w, sw = image("int8", (3, 2, 1, 1), 25), [0.02, 0.05, 0.01]
    given = operands(x, w, [120], None, [20000, 0, -90000], [128], sw=sw)
    add(topic, "bias-each", "bias is added before scaling, channel by channel", "QLC-4", given)


@topics.file("windows")
def _windows(topic: Topic) -> None:
    x = image("uint8", (1, 2, 4, 5), 31)
    for name, (text, options, kernel) in WINDOWS.items():
        w = image("int8", (2, 2, *kernel), 32 + len(name))
        padded = "start" in options or "end" in options
        given = operands(x, w, [131], None, None, [128])
        clause = "QLC-3 QLC-8" if padded else "QLC-8"
        flags = "Windows Padding" if padded else "Windows"
        add(topic, name, text, clause, given, attributes(**options), flags=flags)
    _padding_values(topic)
    _batch_and_line(topic)


def _padding_values(topic: Topic) -> None:
    ring = attributes(start=(1, 1), end=(1, 1))
    for dtype, zero in (("int8", -128), ("int8", 5), ("uint8", 255)):
        x = image(dtype, (1, 1, 2, 2), 50)
        given = operands(x, ints("uint8", (1, 1, 3, 3), [1] * 9), [zero], [0], None, [120])
        name = f"padding-{dtype}-zero-point-{zero}".replace("--", "-minus-")
        text = f"padding must hold the input zero point {zero}, not 0"
        add(topic, name, text, "QLC-3", given, ring, flags="Padding")
    given = operands(
        image("uint8", (1, 1, 2, 2), 51), image("uint8", (1, 1, 3, 3), 52), None, [100]
    )
    text = "without an input zero point padding holds 0, filter zero point or not"
    add(topic, "padding-filter-zero-point", text, "QLC-3 QLC-11", given, ring, flags="Padding")


def _batch_and_line(topic: Topic) -> None:
    given = operands(
        image("int8", (3, 1, 2, 3), 53), image("int8", (2, 1, 2, 2), 54), [4], None, [9, -9]
    )
    add(topic, "batch-3", "three images, two channels", "QLC-1", given)
    line = attributes((2,), (2,), (1,), (3,), 1)
    x, w = image("uint8", (2, 2, 7), 55), image("int8", (3, 2, 2), 56)
    given = operands(x, w, [131], None, None, [128])
    given["BiasTensor"] = parameter([100, -50, 0], "int32", rank=3)
    text = "one spatial dimension with stride, dilation and padding"
    add(topic, "rank-3", text, "QLC-14 QLC-8", given, line, flags="Rank3 Padding Windows")


@topics.file("groups")
def _groups(topic: Topic) -> None:
    cases = {
        "groups-2": (4, 4, 2, "two groups of two channels"),
        "depthwise": (3, 3, 3, "one filter for each channel"),
        "depthwise-multiplier-2": (3, 6, 3, "two filters for each channel"),
        "groups-3-of-6": (6, 3, 3, "more input than output channels"),
        "groups-2-wide": (2, 6, 2, "three outputs for each input channel"),
    }
    for number, (name, (channels, outs, groups, text)) in enumerate(cases.items()):
        x = image("uint8", (1, channels, 3, 3), 60 + number)
        w = image("int8", (outs, channels // groups, 2, 2), 70 + number)
        zw, sw = range(-3, outs - 3), [0.03125 * (1 + c) for c in range(outs)]
        given = operands(x, w, [120], list(zw), [100 * c for c in range(outs)], [100], sw=sw)
        flags = "Groups PerChannel"
        add(topic, name, text, "QLC-9 QLC-7", given, attributes(groups=groups), flags=flags)
    given = operands(image("int8", (1, 4, 4, 4), 80), image("uint8", (4, 1, 3, 3), 81), [-9], [200])
    ring = attributes((2, 2), (1, 1), (1, 1), (1, 1), 4)
    text = "depthwise with stride and padding"
    add(
        topic, "depthwise-windows", text, "QLC-9 QLC-3", given, ring, flags="Groups Padding Windows"
    )


@topics.file("contractions")
def _contractions(topic: Topic) -> None:
    for channels in (1, 3, 5, 7, 9, 15, 17):
        x, w = image("uint8", (1, channels, 1, 3), channels), image("int8", (2, channels, 1, 1), 90)
        given = operands(x, w, [128], None, None, [128])
        text = f"sums of {channels} products"
        add(topic, f"contraction-{channels}", text, "QLC-2", given, flags="OddContraction")
    given = operands(image("int8", (1, 3, 5, 5), 91), image("int8", (2, 3, 3, 3), 92), [3], [1])
    text = "sums of 27 products in a 3 x 3 window"
    add(topic, "contraction-27", text, "QLC-2", given, flags="OddContraction")
    pairs = (
        ints("uint8", (1, 4, 1, 1), [255] * 4),
        ints("int8", (2, 4, 1, 1), [127] * 4 + [-128] * 4),
    )
    given = operands(*pairs, None, None, [-129000, 130700], sy=[1])
    text = "sums of two products leave 16 bits, so they must not saturate there"
    add(topic, "pair-sums", text, "QLC-2", given, flags="Extreme")
    _long_sums(topic)


def _long_sums(topic: Topic) -> None:
    """Let the bias take away all of the sum but 17, so that each of its bits shows."""
    for seed, length in ((1, 300), (2, 515)):
        x = from_recipe("uint8", (1, length, 1, 1), Recipe(seed, 200, 255))
        w = from_recipe("uint8", (2, length, 1, 1), Recipe(seed + 9, 240, 255))
        _, sums = accumulators({"InputTensor": x, "FilterTensor": w}, Windows.of(attributes()))
        bias = [17 - total for total in sums]
        given = operands(x, w, bias=bias, sx=[1], sw=[1])
        text = f"{length} large products, a sum of more than 24 bits, of which the bias leaves 17"
        add(topic, f"long-sum-{length}", text, "QLC-2 QLC-4", given, flags="Large LargeAccumulator")
