"""Calls of a quantized convolution that break one rule."""

from typing import Any

from ...format.vectors import Request
from ..topics import floats, ints
from . import convolution_cases as shared
from .convolution_cases import TWIN, attributes, image, parameter, scale_words, scales
from .quantized_convolution_cases import QuantizedTopic

BASE, SCALED = "twin-everything", {"sw": [0.03125, 0.0625]}
EVERY = {"zx": [120], "zw": [1], "bias": [5, -5], "zy": [100], **SCALED}
WRONG = {
    **shared.WRONG,
    "float16-input-scale": ("InputScaleTensor", floats("float16", (1, 1, 1, 1), [0.5])),
    "float16-filter-scale": ("FilterScaleTensor", floats("float16", (1, 2, 1, 1), [0.5, 1])),
    "int32-output-scale": ("OutputScaleTensor", ints("int32", (1, 1, 1, 1), [1])),
    "float-bias": ("BiasTensor", floats("float32", (1, 2, 1, 1), [5, -5])),
    "int8-bias": ("BiasTensor", ints("int8", (1, 2, 1, 1), [5, -5])),
    "uint8-filter-zero-point": ("FilterZeroPointTensor", parameter([1], "uint8")),
    "int8-output-zero-point": ("OutputZeroPointTensor", parameter([100], "int8")),
    "int32-output-zero-point": ("OutputZeroPointTensor", parameter([100], "int32")),
    "input-scale-each": ("InputScaleTensor", scales([0.5, 0.5])),
    "output-scale-each": ("OutputScaleTensor", scales([0.5, 0.5])),
    "output-zero-point-each": ("OutputZeroPointTensor", parameter([7, 7], "uint8")),
    "filter-scale-3": ("FilterScaleTensor", scales([0.5, 0.5, 0.5])),
    "filter-scale-2x2": ("FilterScaleTensor", floats("float32", (2, 2, 1, 1), [1, 1, 1, 1])),
    "filter-scale-by-input": ("FilterScaleTensor", scale_words([0x3D000000, 0x3D800000])),
    "bias-1": ("BiasTensor", parameter([5], "int32")),
    "bias-3": ("BiasTensor", parameter([5, -5, 0], "int32")),
    "bias-4": ("BiasTensor", parameter([5, -5, 0, 1], "int32")),
}
TYPES = (
    "float-input int16-input complex-input int32-filter float16-input-scale float16-filter-scale"
    " int32-output-scale float-bias int8-bias int8-input-zero-point uint8-filter-zero-point"
    " int8-output-zero-point int32-output-zero-point"
)
RANKS = "input-rank-2 input-rank-5 filter-rank-3 filter-rank-5"
PARAMETERS = (
    "input-scale-each output-scale-each input-zero-point-each output-zero-point-each"
    " filter-scale-3 filter-scale-2x2 filter-zero-point-3"
)


IS = "{field} is {value}"


def add_invalid_types(topic: QuantizedTopic) -> None:
    """Fill the file of wrong data types."""
    topic.add_twin(f"{BASE}-types", topic.clauses("1"), EVERY)
    names = " ".join(name for name in TYPES.split() if name not in topic.allowed)
    clause, text = topic.clauses("10"), "{field} is {dtype}"
    topic.wrong(f"{BASE}-types", "data_type", clause, text, WRONG, names)
    base, text = "no-output-zero-point", "the twin: no output zero point"
    topic.add(base, text, topic.clauses("10"), *TWIN, flags="Optional")
    asked, text = {"OutputTensor": Request("int16", (1, 2, 2, 2))}, "an INT16 output is asked for"
    topic.invalid("int16-output", text, topic.clauses("10"), base, "data_type", asked)


def add_invalid_sizes(topic: QuantizedTopic) -> None:
    """Fill the file of wrong ranks and sizes."""
    base, text = f"{BASE}-sizes", "{field} has sizes {sizes}"
    topic.add_twin(base, topic.clauses("1"), EVERY)
    topic.wrong(
        base, "dimension_count", topic.clauses("14"), "{field} has rank {rank}", WRONG, RANKS
    )
    topic.wrong(
        base, "sizes", topic.clauses("9"), text, WRONG, "filter-channels-3 filter-channels-1"
    )
    topic.wrong(base, "sizes", topic.clauses("7"), text, WRONG, PARAMETERS)
    topic.wrong(base, "sizes", topic.clauses("4"), text, WRONG, "bias-3 bias-4")
    x, w, own = image("uint8", (1, 4, 2, 2), 13), image("int8", (4, 2, 1, 1), 14), "groups-2-of-4"
    two = attributes(groups=2)
    topic.add(own, "the twin: two groups", topic.clauses("9"), x, w, flags="Groups", options=two)
    for name, (field, text, changed) in GROUPS.items():
        text, code = f"channels do not fit the groups: {text}", f"sizes {field}"
        topic.invalid(name, text, topic.clauses("9"), own, code, changed, "Invalid Groups")
    topic.refuse_kernels(base, topic.clauses("8"))


def _filters(outputs: int, channels: int) -> dict[str, Any]:
    return {"FilterTensor": image("int8", (outputs, channels, 1, 1), 15)}


GROUPS = {
    "groups-do-not-divide-outputs": ("GroupCount", "K = 3", _filters(3, 2)),
    "groups-miss-channels": ("FilterTensor", "4 filter channels", _filters(4, 4)),
    "groups-4-filter-2": ("FilterTensor", "four groups, 8 channels", {"GroupCount": 4}),
    "groups-1-filter-2": ("FilterTensor", "one group, 2 channels", {"GroupCount": 1}),
}


def add_invalid_options(topic: QuantizedTopic) -> None:
    """Fill the file of wrong windows and groups."""
    base = f"{BASE}-options"
    topic.add_twin(base, topic.clauses("1"), EVERY)
    topic.wrong(base, "option", topic.clauses("8 9"), IS, shared.OPTIONS)


WORDS = {
    "zero": 0,
    "minus-zero": 0x80000000,
    "nan": 0x7FC00000,
    "infinity": 0x7F800000,
    "minus-infinity": 0xFF800000,
}
KNOWN = "values:known"


def add_invalid_values(topic: QuantizedTopic) -> None:
    """Fill the file of wrong scales."""
    base, text = f"{BASE}-values", "the twin: scales that are known and fine"
    topic.add(base, text, topic.clauses("13"), *TWIN, SCALED, "KnownValue", requires=KNOWN)
    one = {name: [word] for name, word in WORDS.items()}
    second = {f"second-{n}": [0x3D000000, WORDS[n]] for n in ("zero", "nan", "infinity")}
    for label, wrong in {"Input": one, "Filter": second, "Output": one}.items():
        for name, words in wrong.items():
            field, flags = f"{label}ScaleTensor", "Invalid KnownValue"
            own, changed = f"{label.lower()}-scale-{name}", {field: scale_words(words)}
            text = f"{field} is {name}"
            topic.invalid(own, text, topic.clauses("13"), base, "value", changed, flags, KNOWN)


def add_kills(topic: QuantizedTopic) -> None:
    """Add calls for planted bugs that survived all other vectors."""
    cube = {"zx": [120], "zw": [-50, 0, 90], "bias": [90_000, -70_000, 30_000], "zy": [128]}
    each = {**cube, "sw": [0.03125, 0.05, 0.0078125], "sy": [4]}
    clauses = (topic.clauses("1 2 4 7 8"), topic.clauses("2"))
    long = {"zx": [128], "zy": [128], "sy": [4]}
    topic.add_survivors(clauses, each, "uint8", "int8", long)
    base = f"{BASE}-kills"
    topic.add_twin(base, topic.clauses("1"), EVERY)
    topic.wrong(base, "option", topic.clauses("8"), IS, shared.SURVIVOR_OPTIONS)
    topic.wrong(
        base, "sizes", topic.clauses("4"), "one bias for two output channels", WRONG, "bias-1"
    )
    base, own = "two-channels-in-three-out", {"zx": [120], "zw": [1, 2, 3], "zy": [100]}
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    text = "the twin: filter parameters for each of three output channels"
    given = {**own, "sw": [0.03125, 0.0625, 0.125]}
    topic.add(base, text, topic.clauses("7"), x, w, given, "PerChannel")
    names = "filter-scale-by-input filter-zero-point-by-input"
    topic.wrong(base, "sizes", topic.clauses("7"), shared.BY_INPUT, WRONG, names)
    base, text = "known-filter-scales", "the twin: filter scales that are known and fine"
    topic.add(base, text, topic.clauses("13"), *TWIN, SCALED, "KnownValue", requires=KNOWN)
    name, text = "filter-scale-first-zero", "the first of two filter scales is zero"
    changed, flags = {"FilterScaleTensor": scale_words([0, 0x3D000000])}, "Invalid KnownValue"
    topic.invalid(name, text, topic.clauses("13"), base, "value", changed, flags, KNOWN)
