"""ELEMENT_WISE_QUANTIZE_LINEAR: calls written because a planted bug survived all others."""

from collections.abc import Iterator
from fractions import Fraction

from ...format.tensors import Tensor
from .._shared import floats as exact
from .._shared.element_wise_cases import add, add_too_deep, operands, words
from .._shared.floats import round_half_even
from .._shared.near_ties import Draw
from ..topics import Topic, floats, ints
from .cases import OPERATOR


def topics() -> Iterator[Topic]:
    """Yield the file of this module."""
    topic = Topic(OPERATOR, "kills")
    x, scale = _lost_ties()
    given = operands(x, scale, ints("int8", x.sizes, [1] * len(x.words)))
    text = "FLOAT16 ties that a reciprocal in FLOAT32 misplaces"
    add(topic, "float16-reciprocal-ties", text, "QNT-1 QNT-2", given, "int8", "Tie")
    cube = floats("float32", (3, 3, 3), (step * 0.75 for step in range(-13, 14)))
    scales = floats("float32", (1, 1, 3), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (1, 3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
    add(topic, "every-axis-3", text, "QNT-5", given, "int8", "Broadcast")
    scales = floats("float32", (3,), [0.5, 1.25, 3])
    given = operands(cube, scales, ints("int8", (3, 1), [-40, 0, 40]))
    text = "every axis has 3 places; parameters of lower rank align on the right"
    add(topic, "every-axis-3-lower-rank", text, "QNT-5", given, "int8", "Broadcast")
    twin = "twin-kills"
    plane = floats("float32", (2, 3), range(6))
    given = operands(plane, floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3]))
    text = "the twin: scale and zero point for each column"
    add(topic, twin, text, "QNT-5", given, "uint8", "Broadcast")
    add_too_deep(topic, twin, "QNT-5", {"ZeroPointTensor": ints("uint8", (1, 1, 3), [1, 2, 3])})
    yield topic


def _lost_ties() -> tuple[Tensor, Tensor]:
    """Return twelve exact ties x / scale for which x * (1 / scale) in FLOAT32 is not one."""
    draw = Draw(7)
    found: list[tuple[int, int]] = []
    while len(found) < 12:
        scale, steps = draw.odd(6), 2 * draw.below(15) + 1
        x, s = exact.exactly(Fraction(scale * steps, 2)), exact.exactly(Fraction(scale))
        reciprocal = exact.divide(exact.exactly(Fraction(1)), s, "float32")
        rounded = round_half_even(exact.multiply(x, reciprocal, "float32").value)
        if rounded != round_half_even(Fraction(steps, 2)):
            found.append((exact.encode(x, "float16"), exact.encode(s, "float16")))
    return words("float16", *(x for x, _ in found)), words("float16", *(s for _, s in found))
