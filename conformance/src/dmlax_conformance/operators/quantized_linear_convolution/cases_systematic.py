"""QUANTIZED_LINEAR_CONVOLUTION: every pair of options, and every size class."""

from collections.abc import Iterator
from math import prod

from .._shared import window_systematic as systematic
from .._shared.covering import Apart, Factors, Row
from .._shared.systematic import flags_of, pairs, size_classes
from .._shared.window_cases import parameter
from .._shared.window_systematic import EIGHT, WINDOWS
from ..topics import Topic
from .cases import OPERATOR, add, operands

FACTORS: Factors = {
    **WINDOWS,
    "output": EIGHT,
    "output zero point": ("absent", "one"),
    "bias": ("absent", "each channel"),
    "filter scale": ("one", "each channel"),
}
APART: Apart = {}


def topics() -> Iterator[Topic]:
    """Yield the files of this module."""
    yield from pairs(OPERATOR, FACTORS, APART, _pair)
    yield from size_classes(OPERATOR, _of_size)


def _pair(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    x, w = systematic.operands(row, number)
    channels = w.sizes[0]
    zx = systematic.point(row["input zero point"], row["input"], 1, 9)
    zw = systematic.point(row["filter zero point"], row["filter"], channels, -20)
    zy = systematic.point(row["output zero point"], row["output"], 1, -30)
    bias = None if row["bias"] == "absent" else [(-1) ** c * 5000 * c for c in range(channels)]
    many = row["filter scale"] != "one"
    sw = [0.03125 + 0.007 * channel for channel in range(channels if many else 1)]
    given = operands(x, w, zx, zw, bias, zy, row["output"], sw=sw, sy=[4])
    if bias is not None:  # of the rank of the input, as a desc wants it
        given["BiasTensor"] = parameter(bias, "int32", len(x.sizes))
    clause = "QLC-1 QLC-7 QLC-8 QLC-10"
    add(topic, name, text, clause, given, systematic.window(row), row["output"])


def _of_size(topic: Topic, count: int, number: int) -> None:
    x, w = systematic.images(count, 640 + 2 * number)
    bias = [(-1) ** channel * 3000 * channel for channel in range(w.sizes[0])]
    sw = [0.03125 + 0.007 * channel for channel in range(w.sizes[0])]
    given = operands(x, w, [5 + number], [number - 7], bias, [128], sw=sw, sy=[4])
    text = f"{count} output elements, {prod(x.sizes)} of the input"
    add(topic, f"elements-{count}", text, "QLC-1 QLC-8", given, flags=flags_of(count))
    systematic.add_too_wide(topic, count, "QLC-8")
