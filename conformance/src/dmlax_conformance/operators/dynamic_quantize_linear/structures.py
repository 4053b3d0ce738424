"""Value classes and structures of DYNAMIC_QUANTIZE_LINEAR."""

from typing import Any

from .._shared.cross import ELEMENTS as ELEMENTS_MEET
from .._shared.cross import Cross, Meeting, impossible
from .._shared.output_structures import ELEMENTS, QUOTIENTS, TYPES, QuotientView, at_ranks
from .meaning import quotients


class View(QuotientView):
    """The exact quotients of a call."""

    quotients_of = staticmethod(quotients)


BEYOND = ("far ", "above 32", "below 32", "saturates ")  # a quotient is at most 255
CLASSES: dict[str, Any] = {
    name: test
    for name, test in QUOTIENTS.items()
    if not name.startswith(BEYOND) and name != "near tie in float64"
}
STRUCTURES: dict[str, Any] = {
    **ELEMENTS,
    **at_ranks(range(1, 9)),
    **{
        f"{dtype} input": (lambda view, dtype=dtype: view.dtype("InputTensor") == dtype)
        for dtype in ("float32", "float16")
    },
    **TYPES,
}
IMPOSSIBLE = impossible(
    "an input of 11 bits is on a half of the scale, or far from one",
    ("near tie in float32", "float16 input"),
    ("dynamic-float32-*", "float16 input"),
    ("dynamic-rounds-twice-fine", "float16 input"),
)
OF_THE_RANGE = (  # which all elements have in common
    *("*range*", "*least*", "*largest-only", "*-every-second", "*subnormal*", "*-over-*"),
    *("*-the-length", "*-both-ends", "*-by-reciprocal", "*-scale-*", "*-nothing-*", "*-point-*"),
)
OF_ONE_TYPE = tuple(f"dynamic-clamps-{name}" for name in ("int8-*", "uint8-*", "to-minus-127"))
OF_BEYOND = ("dynamic-wraps*", "dynamic-clamps-*")
MEETING = Meeting(
    ("tie, even *", "between", "whole"),
    ("* input", "* output", "rank [2-8]"),
    ELEMENTS_MEET,
)
CROSS: Cross[View] = Cross(
    View, CLASSES, STRUCTURES, IMPOSSIBLE, (*OF_THE_RANGE, *OF_ONE_TYPE, *OF_BEYOND), MEETING
)
