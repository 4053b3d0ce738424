"""CONVOLUTION_INTEGER: every pair of options, and every size class."""

from collections.abc import Iterator
from math import prod

from .._shared import window_systematic as systematic
from .._shared.covering import Apart, Row
from .._shared.systematic import flags_of, pairs, size_classes
from .._shared.window_systematic import WINDOWS
from ..topics import Topic
from .cases import OPERATOR, add, operands

FACTORS = WINDOWS
APART: Apart = {}


def topics() -> Iterator[Topic]:
    """Yield the files of this module."""
    yield from pairs(OPERATOR, FACTORS, APART, _pair)
    yield from size_classes(OPERATOR, _of_size)


def _pair(topic: Topic, name: str, text: str, row: Row, number: int) -> None:
    x, w = systematic.operands(row, number)
    zx = systematic.point(row["input zero point"], row["input"], 1, 9)
    zw = systematic.point(row["filter zero point"], row["filter"], w.sizes[0], -20)
    given = operands(x, w, zx, zw)
    add(topic, name, text, "CVI-1 CVI-3 CVI-4", given, systematic.window(row))


def _of_size(topic: Topic, count: int, number: int) -> None:
    x, w = systematic.images(count, 600 + 2 * number)
    given = operands(x, w, [5 + number], [number - 7])
    text = f"{count} output elements, {prod(x.sizes)} of the input"
    add(topic, f"elements-{count}", text, "CVI-1 CVI-3", given, flags=flags_of(count))
    systematic.add_too_wide(topic, count, "CVI-3")
