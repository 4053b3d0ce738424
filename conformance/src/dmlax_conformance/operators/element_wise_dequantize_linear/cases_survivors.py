"""ELEMENT_WISE_DEQUANTIZE_LINEAR: calls written because a planted bug survived all others."""

from collections.abc import Iterator

from .._shared.element_wise_cases import add, add_too_deep, operands
from ..topics import Topic, drawn, floats, ints
from .cases import OPERATOR


def topics() -> Iterator[Topic]:
    """Yield the file of this module."""
    topic = Topic(OPERATOR, "kills")
    cube = drawn("uint8", (3, 3, 3), 103, 0, 255)
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (1, 3, 1), [40, 0, 200]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "DQT-4", given, "float32", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("uint8", (3, 1), [40, 0, 200]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "DQT-4", given, "float32", "Broadcast")
    twin = "twin-kills"
    plane = ints("uint8", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, twin, text, "DQT-4", given, "float32", "Broadcast")
    error, field = ("sizes", "ZeroPointTensor"), "ZeroPointTensor"
    text = "ZeroPointTensor of sizes [4, 3] does not repeat to [2, 3]"
    tensor = {field: ints("uint8", (4, 3), [1] * 12)}
    topic.invalid("zero-point-grows-input", text, "DQT-4", twin, error, tensor)
    deep = {
        "ScaleTensor": floats("float32", (1, 1, 3), [1, 2, 3]),
        "ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3]),
    }
    add_too_deep(topic, twin, "DQT-4", deep)
    yield topic
