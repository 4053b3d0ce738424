"""Value classes of the sum of a quantized convolution and an addend, and structures.

The convolution's own classes are those of the table without an addend.
"""

from itertools import product
from typing import Any

from .._shared import convolution_structures as shared
from .._shared.convolution_structures import ConvolutionView, has
from .._shared.cross import LINES, Cross, Meeting, impossible
from .._shared.output_structures import QUOTIENTS, TYPES, QuotientView
from .._shared.value_classes import ROUNDED
from .meaning import quotients


class View(ConvolutionView, QuotientView):
    """The parts of a call that predicates read, the exact quotients of the sum among them."""

    quotients_of = staticmethod(quotients)


POINTS = {"the addend": "AddendZeroPointTensor", "the sum": "SumZeroPointTensor"}
STRUCTURES: dict[str, Any] = {
    **shared.STRUCTURES,
    "no bias": has("BiasTensor", 0),
    "a bias": has("BiasTensor", 1, shared.MANY),
    "addend first": lambda view: view.vector.attributes["AddendFirst"],
    "addend last": lambda view: not view.vector.attributes["AddendFirst"],
    **{
        f"{own} addend, {y} output": (
            lambda view, own=own, y=y: (view.dtype("AddendTensor"), view.output) == (own, y)
        )
        for own, y in product(("int8", "uint8"), repeat=2)
    },
    **{f"no zero point of {name}": has(field, 0) for name, field in POINTS.items()},
    **{f"a zero point of {name}": has(field, 1) for name, field in POINTS.items()},
    **TYPES,
}
IMPOSSIBLE = impossible(
    "a zero point of 0 is added",
    ("qconvadd-sum-zero-point-first", "no zero point of the sum"),
    ("qconvadd-sum-clamps-before-zero-point", "no zero point of the sum"),
)
OF_THE_CONVOLUTION = tuple(f"qconvadd-{each}*" for each in ("[!s]", "s[!u]", "su[!m]", "sums-"))
OF_THEIR_OWN = tuple(
    f"qconvadd-sum-{name}"
    for name in (
        *("clamps-int8-*", "clamps-uint8-*", "clamps-to-*", "differences-*"),
        *("counts-a-term-of-0", "*-bit-multipliers", "scale-for-*", "zero-point-for-*"),
    )
)
MEETING = Meeting(
    ROUNDED,
    (
        *("rank *", "* input, * filter", "* output", "*zero point*", "*scale*", "*bias"),
        *("depthwise", "strides", "dilations", "padding", "addend *", "one tap"),
    ),
    LINES,
    (("rank 3", "rows *"),),
)
CROSS: Cross[View] = Cross(
    View, QUOTIENTS, STRUCTURES, IMPOSSIBLE, (*OF_THE_CONVOLUTION, *OF_THEIR_OWN), MEETING
)
