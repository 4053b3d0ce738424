"""QUANTIZED_LINEAR_CONVOLUTION: calls written because a planted bug survived all others."""

from collections.abc import Iterator

from .._shared.window_cases import (
    SURVIVOR_OPTIONS,
    add_options,
    attributes,
    image,
    long_operands,
    parameter,
    scale_words,
)
from ..topics import Topic
from .cases import OPERATOR, add, operands


def topics() -> Iterator[Topic]:
    """Yield the file of this module."""
    topic = Topic(OPERATOR, "kills")
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
    twin = _twin(topic)
    add_options(topic, twin, "QLC-8", SURVIVOR_OPTIONS)
    tensor = parameter([5], "int32")
    error = ("sizes", "BiasTensor")
    text = "one bias for two output channels"
    topic.invalid("bias-1", text, "QLC-4", twin, error, {"BiasTensor": tensor})
    _by_input(topic)
    _first_scale(topic)
    yield topic


def _twin(topic: Topic) -> str:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = operands(x, w, [120], [1], [5, -5], [100], sw=[0.03125, 0.0625])
    text = "the twin: every tensor is present"
    add(topic, "twin-everything-kills", text, "QLC-1", given, flags="Optional")
    return "twin-everything-kills"


def _by_input(topic: Topic) -> None:
    """Give one scale for each input channel, of which there are fewer."""
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    given = operands(x, w, [120], [1, 2, 3], None, [100], sw=[0.03125, 0.0625, 0.125])
    twin = "two-channels-in-three-out"
    text = "the twin: filter parameters for each of three output channels"
    add(topic, twin, text, "QLC-7", given, flags="PerChannel")
    wrong = {
        "FilterScaleTensor": scale_words([0x3D000000, 0x3D800000]),
        "FilterZeroPointTensor": parameter([1, 2], "int8"),
    }
    for field, tensor in wrong.items():
        name = "filter-scale-by-input" if "Scale" in field else "filter-zero-point-by-input"
        text = f"{field} has one value for each input channel"
        topic.invalid(name, text, "QLC-7", twin, ("sizes", field), {field: tensor})


def _first_scale(topic: Topic) -> None:
    x, w = image("uint8", (1, 2, 3, 3), 11), image("int8", (2, 2, 2, 2), 12)
    given = operands(x, w, sw=[0.03125, 0.0625])
    twin, flags, need = "known-filter-scales", "KnownValue", "values:known"
    text = "the twin: filter scales that are known and fine"
    add(topic, twin, text, "QLC-13", given, flags=flags, requires=need)
    tensor = {"FilterScaleTensor": scale_words([0, 0x3D000000])}
    error, text = ("value", "FilterScaleTensor"), "the first of two filter scales is zero"
    flags = "Invalid KnownValue"
    name = "filter-scale-first-zero"
    topic.invalid(name, text, "QLC-13", twin, error, tensor, flags=flags, requires=need)
