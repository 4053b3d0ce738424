"""CONVOLUTION_INTEGER: calls written because a planted bug survived all others."""

from collections.abc import Iterator

from .._shared.window_cases import (
    SURVIVOR_OPTIONS,
    add_options,
    attributes,
    image,
    long_operands,
    parameter,
)
from ..topics import Topic
from .cases import OPERATOR, add, operands


def topics() -> Iterator[Topic]:
    """Yield the file of this module."""
    topic = Topic(OPERATOR, "kills")
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
    twin = "twin-kills"
    text = "the twin: every tensor is present"
    add(topic, twin, text, "CVI-1", given, flags="Optional")
    add_options(topic, twin, "CVI-3", SURVIVOR_OPTIONS)
    _integer_sizes(topic, twin)
    yield topic


def _integer_sizes(topic: Topic, twin: str) -> None:
    tall = {"FilterTensor": image("int8", (2, 2, 4, 2), 1)}
    text, error = "the kernel is higher than the padded input", ("sizes", "FilterTensor")
    topic.invalid("kernel-too-high", text, "CVI-3", twin, error, tall)
    text = "the dilated kernel spans 4 of 3 columns"
    wide = {"Dilations": [1, 3]}
    topic.invalid("dilated-kernel-too-wide", text, "CVI-3", twin, error, attributes=wide)
    text = "the filter has fewer channels than the input"
    narrow = {"FilterTensor": image("int8", (2, 1, 2, 2), 1)}
    topic.invalid("filter-channels-1", text, "CVI-3", twin, error, narrow)
    ranks = {
        "input-rank-5": ("InputTensor", image("uint8", (1, 2, 3, 3, 1), 1)),
        "filter-rank-3": ("FilterTensor", image("int8", (2, 2, 4), 1)),
    }
    for name, (field, tensor) in ranks.items():
        text, error = f"{field} has rank {len(tensor.sizes)}", ("dimension_count", field)
        topic.invalid(name, text, "CVI-7", twin, error, {field: tensor})
    twin = "two-channels-in-three-out"
    x, w = image("uint8", (1, 2, 3, 3), 111), image("int8", (3, 2, 2, 2), 112)
    text = "the twin: filter zero points for each of three output channels"
    given = operands(x, w, [120], [1, 2, 3])
    add(topic, twin, text, "CVI-5", given, flags="PerChannel")
    field = "FilterZeroPointTensor"
    text = "FilterZeroPointTensor has one value for each input channel"
    tensor, error = parameter([1, 2], "int8"), ("sizes", field)
    topic.invalid("filter-zero-point-by-input", text, "CVI-5", twin, error, {field: tensor})
