"""QUANTIZED_LINEAR_CONVOLUTION: data types, parameters, windows, groups and long sums."""

from itertools import product

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared import convolution_cases as shared
from .._shared.convolution import Windows, accumulators
from .._shared.convolution_cases import attributes, image, parameter
from .._shared.covering import Apart, Factors, Row
from .._shared.rounding import RANGES
from .._shared.systematic import each_pair, each_size, flags_of
from ..topics import Files, ints

OPERATOR = "quantized_linear_convolution"


SCALES: shared.Parameters = {"sx": (0.0625,), "sw": (0.03125,), "sy": (1,)}


class QuantizedTopic(shared.ConvolutionTopic):
    """One file of calls: UINT8 unless they say otherwise."""

    dtype = "uint8"
    scales = SCALES


topics = Files(OPERATOR, QuantizedTopic)


@topics.file("data-types")
def _data_types(topic: QuantizedTopic) -> None:
    """Both ends of every range meet: ends of the input, of the filter, and of the zero points."""
    for types in product(RANGES, repeat=3):
        (xl, xh), (wl, wh), (yl, yh) = (RANGES[dtype] for dtype in types)
        x = ints(types[0], (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xl, xl, xh, 1])
        w = ints(types[1], (3, 2, 1, 2), [wl, wh, wh, wl, wh, wh, wh, wh, wl, wl, wl, 1])
        points = {"zx": [xl], "zw": [wh], "bias": [0, -70000, 90000], "zy": [(yl + yh) // 2]}
        own, label, dtype = {**points, "sy": [4]}, "-".join(types), types[2]
        text = "{} input, {} filter, {} output at the ends of their ranges".format(*types)
        name, clause = f"extremes-{label}", "QLC-2 QLC-10"
        topic.add(name, text, clause, x, w, own, "Extreme", dtype=dtype)
        text, own = "the same operands, all optional tensors absent", {"sy": [4]}
        name, clause = f"no-zero-points-{label}", "QLC-10 QLC-11"
        topic.add(name, text, clause, x, w, own, "Extreme Optional", dtype=dtype)


ALL = {"zx": [120], "zw": [-5], "bias": [50000, -30000], "zy": [100]}
PRESENT = {
    "none": "",
    "input-zero-point": "zx",
    "filter-zero-point": "zw",
    "bias": "bias",
    "output-zero-point": "zy",
    "all": "zx zw bias zy",
}


@topics.file("parameters")
def _parameters(topic: QuantizedTopic) -> None:
    x, w = image(seed=21), image("int8", (2, 2, 2, 2), 22)
    for name, keys in PRESENT.items():
        text = f"optional tensors that are present: {name}"
        clause = "QLC-1 QLC-4 QLC-11" if name == "all" else "QLC-1 QLC-11"
        own = {"sy": [4], **{key: ALL[key] for key in keys.split()}}
        topic.add(f"optional-{name}", text, clause, x, w, own, "Optional")
    w, points = image("int8", (4, 2, 2, 2), 23), {"zx": [120], "zy": [9]}
    every_scale, every_zero = [0.03125, 0.05, 0.0078125, 0.1], [-5, 0, 60, -70]
    for scale, zero in product(("one", "each"), repeat=2):
        sw, zw = every_scale[: 1 + 3 * (scale == "each")], every_zero[: 1 + 3 * (zero == "each")]
        name = f"scale-{scale}-zero-point-{zero}"
        text = f"filter scale: {scale}; filter zero point: {zero}"
        topic.add(name, text, "QLC-7", x, w, {**points, "sw": sw, "zw": zw}, "PerChannel")
    flat = {"sw": shared.scales(every_scale, 1), "zw": parameter(every_zero, "int8", 1)}
    flat |= {"sx": shared.scales([0.0625], 1), "zy": parameter([9], "uint8", 1)}
    text = "parameters of rank 1: {K} and {1}"
    topic.add("parameters-rank-1", text, "QLC-7", x, w, {"zx": [120], **flat}, "PerChannel")
    w, one = image("int8", (1, 2, 2, 2), 24), {"zx": [7], "zw": [3], "bias": [12], "zy": [9]}
    text = "K = 1, every tensor present"
    topic.add("one-output-channel", text, "QLC-7", x, w, one, "Optional")
    w = image("int8", (3, 2, 1, 1), 25)
    each = {"bias": [20000, 0, -90000], "sw": [0.02, 0.05, 0.01]}
    text = "bias is added before scaling, channel by channel"
    topic.add("bias-each", text, "QLC-4", x, w, {"zx": [120], "zy": [128], **each})


@topics.file("windows")
def _windows(topic: QuantizedTopic) -> None:
    x, own = image(seed=31), {"zx": [131], "zy": [128]}
    topic.add_windows(x, "int8", own, "QLC-8", "QLC-3 QLC-8")
    for dtype, zero in (("int8", -128), ("int8", 5), ("uint8", 255)):
        x, w = image(dtype, (1, 1, 2, 2), 50), ints("uint8", (1, 1, 3, 3), [1] * 9)
        name = f"padding-{dtype}-zero-point-{zero}".replace("--", "-minus-")
        text = f"padding must hold the input zero point {zero}, not 0"
        points = {"zx": [zero], "zw": [0], "zy": [120]}
        topic.add(name, text, "QLC-3", x, w, points, "Padding", shared.RING)
    x, w = image("uint8", (1, 1, 2, 2), 51), image("uint8", (1, 1, 3, 3), 52)
    name, clause = "padding-filter-zero-point", "QLC-3 QLC-11"
    text = "without an input zero point padding holds 0, filter zero point or not"
    topic.add(name, text, clause, x, w, {"zw": [100]}, "Padding", shared.RING)
    x, w = image("int8", (3, 1, 2, 3), 53), image("int8", (2, 1, 2, 2), 54)
    biases = {"zx": [4], "bias": [9, -9]}
    topic.add("batch-3", "three images, two channels", "QLC-1", x, w, biases)
    bias = parameter([100, -50, 0], "int32", 3)
    topic.add_line("QLC-14 QLC-8", {**own, "bias": bias})


GROUPS = {
    "groups-2": (4, 4, 2, "two groups of two channels"),
    "depthwise": (3, 3, 3, "one filter for each channel"),
    "depthwise-multiplier-2": (3, 6, 3, "two filters for each channel"),
    "groups-3-of-6": (6, 3, 3, "more input than output channels"),
    "groups-2-wide": (2, 6, 2, "three outputs for each input channel"),
}


@topics.file("groups")
def _groups(topic: QuantizedTopic) -> None:
    for number, (name, (channels, outs, groups, text)) in enumerate(GROUPS.items()):
        x = image("uint8", (1, channels, 3, 3), 60 + number)
        w = image("int8", (outs, channels // groups, 2, 2), 70 + number)
        own = {"zx": [120], "zw": range(-3, outs - 3), "bias": range(0, 100 * outs, 100)}
        each = {**own, "zy": [100], "sw": [0.03125 * (1 + c) for c in range(outs)]}
        options, clause = attributes(groups=groups), "QLC-9 QLC-7"
        topic.add(name, text, clause, x, w, each, "Groups PerChannel", options)
    x, w = image("int8", (1, 4, 4, 4), 80), image("uint8", (4, 1, 3, 3), 81)
    ring, flags = attributes((2, 2), (1, 1), (1, 1), (1, 1), 4), "Groups Padding Windows"
    name, text = "depthwise-windows", "depthwise with stride and padding"
    topic.add(name, text, "QLC-9 QLC-3", x, w, {"zx": [-9], "zw": [200]}, flags, ring)


@topics.file("contractions")
def _contractions(topic: QuantizedTopic) -> None:
    own: dict[str, list[int]] = {"zx": [128], "zy": [128]}
    for channels in (1, 3, 5, 7, 9, 15, 17):
        x, w = image("uint8", (1, channels, 1, 3), channels), image("int8", (2, channels, 1, 1), 90)
        name, text = f"contraction-{channels}", f"sums of {channels} products"
        topic.add(name, text, "QLC-2", x, w, own, "OddContraction")
    x, w = image("int8", (1, 3, 5, 5), 91), image("int8", (2, 3, 3, 3), 92)
    text, own = "sums of 27 products in a 3 x 3 window", {"zx": [3], "zw": [1]}
    topic.add("contraction-27", text, "QLC-2", x, w, own, "OddContraction")
    x = ints("uint8", (1, 4, 1, 1), [255] * 4)
    w = ints("int8", (2, 4, 1, 1), [127] * 4 + [-128] * 4)
    text = "sums of two products leave 16 bits, so they must not saturate there"
    topic.add("pair-sums", text, "QLC-2", x, w, {"bias": [-129000, 130700]}, "Extreme")
    flags = "Large LargeAccumulator"
    for seed, length in ((1, 300), (2, 515)):
        x = from_recipe("uint8", (1, length, 1, 1), Recipe(seed, 200, 255))
        w = from_recipe("uint8", (2, length, 1, 1), Recipe(seed + 9, 240, 255))
        text = f"{length} large products, a sum of more than 24 bits, of which the bias leaves 17"
        own = {"bias": _all_but_17(x, w), "sx": [1], "sw": [1]}
        topic.add(f"long-sum-{length}", text, "QLC-2 QLC-4", x, w, own, flags)


def _all_but_17(x: Tensor, w: Tensor) -> list[int]:
    """Return the bias that takes away all of a sum but 17, so that each of its bits shows."""
    _, sums = accumulators({"InputTensor": x, "FilterTensor": w}, Windows.of(attributes()))
    return [17 - total for total in sums]


FACTORS: Factors = {
    **shared.FACTORS,
    "output": shared.EIGHT,
    "output zero point": ("absent", "one"),
    "bias": ("absent", "each channel"),
    "filter scale": ("one", "each channel"),
}
APART: Apart = {}


@topics.file("pairs")
@each_pair(FACTORS, APART)
def _pair(topic: QuantizedTopic, name: str, text: str, row: Row, number: int) -> None:
    x, w = shared.operands(row, number)
    channels = range(w.sizes[0] if row["filter scale"] != "one" else 1)
    sw = [0.03125 + 0.007 * channel for channel in channels]
    zy = shared.point(row, "output", 1, -30)
    bias = parameter([(-1) ** c * 5000 * c for c in range(w.sizes[0])], "int32", len(x.sizes))
    own = {**shared.points(row, w.sizes[0]), "zy": zy, "sw": sw, "sy": [4]}
    each = own if row["bias"] == "absent" else {**own, "bias": bias}
    clause, options = "QLC-1 QLC-7 QLC-8 QLC-10", shared.window(row)
    topic.add(name, text, clause, x, w, each, "", options, row["output"])


@topics.file("size-classes")
@each_size
def _of_size(topic: QuantizedTopic, count: int, number: int) -> None:
    channels = range(shared.FILTERS.get(count, (1,))[0])
    own = {"zx": [5 + number], "zw": [number - 7], "zy": [128], "sy": [4]}
    own |= {"bias": [(-1) ** channel * 3000 * channel for channel in channels]}
    each = {**own, "sw": [0.03125 + 0.007 * channel for channel in channels]}
    topic.add_size(count, 640 + 2 * number, each, ("QLC-1 QLC-8", "QLC-8"), flags_of(count))
