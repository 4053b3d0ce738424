"""Value classes and structures of MAX_POOLING."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .._shared.cross import LINES as LINES_MEET
from .._shared.cross import Array, Cross, Meeting, each_at, impossible
from .._shared.pooling_structures import IMAGE, LINES, WINDOWS, PoolView
from .._shared.rounding import RANGES

Test = Callable[[Sequence[int], int, int], bool]
VALUES: dict[str, Test] = {  # of the elements of a window, and both ends of the range
    "the first is the largest": lambda own, low, high: own[0] > max(own[1:], default=high),
    "the last is the largest": lambda own, low, high: own[-1] > max(own[:-1], default=high),
    "another is the largest": lambda own, low, high: (
        max(own[1:-1], default=low) > max(own[0], own[-1])
    ),
    "several are the largest": lambda own, low, high: own.count(max(own)) > 1,
    "the highest": lambda own, low, high: max(own) == high,
    "the lowest": lambda own, low, high: max(own) == low,
    "beyond 7 bits": lambda own, low, high: max(own) > 127,
    "zero among negatives": lambda own, low, high: max(own) == 0 > min(own),
    "all are negative": lambda own, low, high: max(own) < 0,
    "a negative is larger without its sign": lambda own, low, high: -min(own) > max(own) > 0,
}


class View(PoolView):
    """The windows of a call."""

    @cached_property
    def classes(self) -> dict[str, Array]:
        """The classes of the windows; one that is all padding has none."""
        low, high = RANGES[self.output]
        return {
            name: np.array([bool(own) and test(own, low, high) for own in self.windows], bool)
            for name, test in VALUES.items()
        }


def _in(name: str) -> Any:
    return lambda view: view.classes[name]


CLASSES: dict[str, Any] = {name: _in(name) for name in VALUES}
STRUCTURES: dict[str, Any] = {
    **LINES,
    **WINDOWS,
    "int8": lambda view: view.dtype(IMAGE) == "int8",
    "uint8": lambda view: view.dtype(IMAGE) == "uint8",
}
SIGNED = tuple(name for name in VALUES if "negative" in name)
IMPOSSIBLE = {
    **impossible("UINT8 has no sign", *each_at((*SIGNED, "*-largest-magnitude"), ("uint8",))),
    **impossible("INT8 has 7 bits and a sign", ("beyond 7 bits", "int8")),
}
OF_THEIR_OWN = ("maxpool-only-*", "maxpool-index-*")  # of lengths, and of an output of descs
MEETING = Meeting(
    ("the first is *", "the last is *", "the highest", "the lowest", "all are negative"),
    ("rank *", "int8", "uint8", "padding", "strides", "dilations"),
    LINES_MEET,
    (("rank 3", "rows *"),),
)
CROSS: Cross[View] = Cross(View, CLASSES, STRUCTURES, IMPOSSIBLE, OF_THEIR_OWN, MEETING)
