"""Calls of a quantized convolution: data types, parameters, windows, groups and long sums."""

from collections.abc import Sequence
from itertools import product

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from ..topics import ints
from . import convolution_cases as shared
from .convolution import Windows, accumulators
from .convolution_cases import attributes, image, parameter
from .covering import Apart, Factors, Row
from .rounding import RANGES
from .systematic import flags_of

SCALES: shared.Parameters = {"sx": (0.0625,), "sw": (0.03125,), "sy": (1,)}


class QuantizedTopic(shared.ConvolutionTopic):
    """One file of calls: UINT8 unless they say otherwise."""

    label = "QLC"
    dtype = "uint8"
    scales = SCALES
    allowed: tuple[str, ...] = ()  # wrong data types of others

    def clauses(self, numbers: str) -> str:
        """Return clauses by number."""
        return " ".join(f"{self.label}-{number}" for number in numbers.split())

    def through_bias(
        self,
        name: str,
        text: str,
        clause: str,
        bias: Sequence[int],
        own: shared.Parameters,
        flags: str,
        dtype: str = "int8",
        source: str = "uint8",
    ) -> None:
        """Add a call whose accumulators are exactly these, and whose scales are 1 if not given."""
        x, w = ints(source, (1, 1, 1, 1), [77]), ints("int8", (len(bias), 1, 1, 1), [1] * len(bias))
        given = {"sx": [1], "sw": [1], "sy": [1], "zx": [77], "bias": bias, **own}
        self.add(name, text, clause, x, w, given, flags, dtype=dtype)


def add_data_types(topic: QuantizedTopic) -> None:
    """Let ends of every range meet: ends of the input, of the filter, and of the zero points."""
    for types in product(RANGES, repeat=3):
        (xl, xh), (wl, wh), (yl, yh) = (RANGES[dtype] for dtype in types)
        x = ints(types[0], (1, 2, 2, 3), [xl, xh, xl, xh, xh, xl, xh, xh, xl, xl, xh, 1])
        w = ints(types[1], (3, 2, 1, 2), [wl, wh, wh, wl, wh, wh, wh, wh, wl, wl, wl, 1])
        points = {"zx": [xl], "zw": [wh], "bias": [0, -70000, 90000], "zy": [(yl + yh) // 2]}
        own, label, dtype = {**points, "sy": [4]}, "-".join(types), types[2]
        text = "{} input, {} filter, {} output at the ends of their ranges".format(*types)
        name, clause = f"extremes-{label}", topic.clauses("2 10")
        topic.add(name, text, clause, x, w, own, "Extreme", dtype=dtype)
        text, own = "the same operands, all optional tensors absent", {"sy": [4]}
        name, clause = f"no-zero-points-{label}", topic.clauses("10 11")
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


def add_parameters(topic: QuantizedTopic) -> None:
    """Fill the file of optional tensors and of their sizes."""
    x, w = image(seed=21), image("int8", (2, 2, 2, 2), 22)
    for name, keys in PRESENT.items():
        text = f"optional tensors that are present: {name}"
        clause = topic.clauses("1 4 11") if name == "all" else topic.clauses("1 11")
        own = {"sy": [4], **{key: ALL[key] for key in keys.split()}}
        topic.add(f"optional-{name}", text, clause, x, w, own, "Optional")
    w, points = image("int8", (4, 2, 2, 2), 23), {"zx": [120], "zy": [9]}
    every_scale, every_zero = [0.03125, 0.05, 0.0078125, 0.1], [-5, 0, 60, -70]
    for scale, zero in product(("one", "each"), repeat=2):
        sw, zw = every_scale[: 1 + 3 * (scale == "each")], every_zero[: 1 + 3 * (zero == "each")]
        name = f"scale-{scale}-zero-point-{zero}"
        text = f"filter scale: {scale}; filter zero point: {zero}"
        topic.add(
            name, text, topic.clauses("7"), x, w, {**points, "sw": sw, "zw": zw}, "PerChannel"
        )
    flat = {"sw": shared.scales(every_scale, 1), "zw": parameter(every_zero, "int8", 1)}
    flat |= {"sx": shared.scales([0.0625], 1), "zy": parameter([9], "uint8", 1)}
    text = "parameters of rank 1: {K} and {1}"
    topic.add(
        "parameters-rank-1", text, topic.clauses("7"), x, w, {"zx": [120], **flat}, "PerChannel"
    )
    w, one = image("int8", (1, 2, 2, 2), 24), {"zx": [7], "zw": [3], "bias": [12], "zy": [9]}
    text = "K = 1, every tensor present"
    topic.add("one-output-channel", text, topic.clauses("7"), x, w, one, "Optional")
    w = image("int8", (3, 2, 1, 1), 25)
    each = {"bias": [20000, 0, -90000], "sw": [0.02, 0.05, 0.01]}
    text = "bias is added before scaling, channel by channel"
    topic.add("bias-each", text, topic.clauses("4"), x, w, {"zx": [120], "zy": [128], **each})


def add_windows(topic: QuantizedTopic) -> None:
    """Fill the file of windows."""
    x, own = image(seed=31), {"zx": [131], "zy": [128]}
    topic.add_windows(x, "int8", own, topic.clauses("8"), topic.clauses("3 8"))
    for dtype, zero in (("int8", -128), ("int8", 5), ("uint8", 255)):
        x, w = image(dtype, (1, 1, 2, 2), 50), ints("uint8", (1, 1, 3, 3), [1] * 9)
        name = f"padding-{dtype}-zero-point-{zero}".replace("--", "-minus-")
        text = f"padding must hold the input zero point {zero}, not 0"
        points = {"zx": [zero], "zw": [0], "zy": [120]}
        topic.add(name, text, topic.clauses("3"), x, w, points, "Padding", shared.RING)
    x, w = image("uint8", (1, 1, 2, 2), 51), image("uint8", (1, 1, 3, 3), 52)
    name, clause = "padding-filter-zero-point", topic.clauses("3 11")
    text = "without an input zero point padding holds 0, filter zero point or not"
    topic.add(name, text, clause, x, w, {"zw": [100]}, "Padding", shared.RING)
    x, w = image("int8", (3, 1, 2, 3), 53), image("int8", (2, 1, 2, 2), 54)
    biases = {"zx": [4], "bias": [9, -9]}
    topic.add("batch-3", "three images, two channels", topic.clauses("1"), x, w, biases)
    bias = parameter([100, -50, 0], "int32", 3)
    topic.add_line(topic.clauses("14 8"), {**own, "bias": bias})


GROUPS = {
    "groups-2": (4, 4, 2, "two groups of two channels"),
    "depthwise": (3, 3, 3, "one filter for each channel"),
    "depthwise-multiplier-2": (3, 6, 3, "two filters for each channel"),
    "groups-3-of-6": (6, 3, 3, "more input than output channels"),
    "groups-2-wide": (2, 6, 2, "three outputs for each input channel"),
}


def add_groups(topic: QuantizedTopic) -> None:
    """Fill the file of groups."""
    for number, (name, (channels, outs, groups, text)) in enumerate(GROUPS.items()):
        x = image("uint8", (1, channels, 3, 3), 60 + number)
        w = image("int8", (outs, channels // groups, 2, 2), 70 + number)
        own = {"zx": [120], "zw": range(-3, outs - 3), "bias": range(0, 100 * outs, 100)}
        each = {**own, "zy": [100], "sw": [0.03125 * (1 + c) for c in range(outs)]}
        options, clause = attributes(groups=groups), topic.clauses("9 7")
        topic.add(name, text, clause, x, w, each, "Groups PerChannel", options)
    x, w = image("int8", (1, 4, 4, 4), 80), image("uint8", (4, 1, 3, 3), 81)
    ring, flags = attributes((2, 2), (1, 1), (1, 1), (1, 1), 4), "Groups Padding Windows"
    name, text = "depthwise-windows", "depthwise with stride and padding"
    topic.add(name, text, topic.clauses("9 3"), x, w, {"zx": [-9], "zw": [200]}, flags, ring)


def add_contractions(topic: QuantizedTopic) -> None:
    """Fill the file of long and of odd sums."""
    own: dict[str, list[int]] = {"zx": [128], "zy": [128]}
    for channels in (1, 3, 5, 7, 9, 15, 17):
        x, w = image("uint8", (1, channels, 1, 3), channels), image("int8", (2, channels, 1, 1), 90)
        name, text = f"contraction-{channels}", f"sums of {channels} products"
        topic.add(name, text, topic.clauses("2"), x, w, own, "OddContraction")
    x, w = image("int8", (1, 3, 5, 5), 91), image("int8", (2, 3, 3, 3), 92)
    text, own = "sums of 27 products in a 3 x 3 window", {"zx": [3], "zw": [1]}
    topic.add("contraction-27", text, topic.clauses("2"), x, w, own, "OddContraction")
    x = ints("uint8", (1, 4, 1, 1), [255] * 4)
    w = ints("int8", (2, 4, 1, 1), [127] * 4 + [-128] * 4)
    text = "sums of two products leave 16 bits, so they must not saturate there"
    topic.add("pair-sums", text, topic.clauses("2"), x, w, {"bias": [-129000, 130700]}, "Extreme")
    flags = "Large LargeAccumulator"
    for seed, length in ((1, 300), (2, 515)):
        x = from_recipe("uint8", (1, length, 1, 1), Recipe(seed, 200, 255))
        w = from_recipe("uint8", (2, length, 1, 1), Recipe(seed + 9, 240, 255))
        text = f"{length} large products, a sum of more than 24 bits, of which the bias leaves 17"
        own = {"bias": _all_but_17(x, w), "sx": [1], "sw": [1]}
        topic.add(f"long-sum-{length}", text, topic.clauses("2 4"), x, w, own, flags)


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


def add_pair(topic: QuantizedTopic, name: str, text: str, row: Row, number: int) -> None:
    """Add the call of one row of options."""
    x, w = shared.operands(row, number)
    channels = range(w.sizes[0] if row["filter scale"] != "one" else 1)
    sw = [0.03125 + 0.007 * channel for channel in channels]
    zy = shared.point(row, "output", 1, -30)
    bias = parameter([(-1) ** c * 5000 * c for c in range(w.sizes[0])], "int32", len(x.sizes))
    own = {**shared.points(row, w.sizes[0]), "zy": zy, "sw": sw, "sy": [4]}
    each = own if row["bias"] == "absent" else {**own, "bias": bias}
    clause, options = topic.clauses("1 7 8 10"), shared.window(row)
    topic.add(name, text, clause, x, w, each, "", options, row["output"])


def add_size(topic: QuantizedTopic, count: int, number: int) -> None:
    """Add a call with so many output elements."""
    channels = range(shared.FILTERS.get(count, (1,))[0])
    own = {"zx": [5 + number], "zw": [number - 7], "zy": [128], "sy": [4]}
    own |= {"bias": [(-1) ** channel * 3000 * channel for channel in channels]}
    each = {**own, "sw": [0.03125 + 0.007 * channel for channel in channels]}
    topic.add_size(
        count, 640 + 2 * number, each, (topic.clauses("1 8"), topic.clauses("8")), flags_of(count)
    )
