"""Value classes and structures of an operator on two quantized tensors that broadcast."""

from math import prod
from typing import Any

from .convolution_structures import has
from .cross import ELEMENTS as ELEMENTS_MEET
from .cross import Cross, Meeting, each_at, impossible
from .output_structures import ELEMENTS, QUOTIENTS, TYPES, Quotients, QuotientView, at_ranks
from .value_classes import ROUNDED

A, B = "ATensor", "BTensor"
POINTS = {"A": "AZeroPointTensor", "B": "BZeroPointTensor", "the output": "OutputZeroPointTensor"}


def _repeats(view: QuotientView, *names: str) -> bool:
    """Return whether exactly these operands have fewer elements than the output."""
    return all(
        (prod(view.vector.inputs[name].sizes) < view.count) == (name in names) for name in (A, B)
    )


def _last(view: QuotientView, name: str) -> int:
    sizes = view.vector.inputs[name].sizes
    return sizes[-1] if sizes else 1


STRUCTURES: dict[str, Any] = {
    **ELEMENTS,
    **at_ranks(range(1, 9)),
    "neither repeats": lambda view: _repeats(view),
    "A repeats": lambda view: _repeats(view, A),
    "B repeats": lambda view: _repeats(view, B),
    "both repeat": lambda view: _repeats(view, A, B),
    "A is one value": lambda view: prod(view.vector.inputs[A].sizes) == 1 < view.count,
    "B is one value": lambda view: prod(view.vector.inputs[B].sizes) == 1 < view.count,
    "A repeats along rows": lambda view: _last(view, A) == 1 < view.columns and _repeats(view, A),
    "B repeats along rows": lambda view: _last(view, B) == 1 < view.columns and _repeats(view, B),
    **{
        f"{a} A, {b} B": (lambda view, a=a, b=b: (view.dtype(A), view.dtype(B)) == (a, b))
        for a in ("int8", "uint8")
        for b in ("int8", "uint8")
    },
    **{f"no zero point of {name}": has(field, 0) for name, field in POINTS.items()},
    **{f"a zero point of {name}": has(field, 1) for name, field in POINTS.items()},
    **TYPES,
}


MEETING = Meeting(
    ROUNDED,
    ("*zero point of *", "*int8 A, *", "* output", "* repeat*", "rank [2-8]"),
    ELEMENTS_MEET,
)


def cross(prefix: str, quotients: Quotients, whole: tuple[str, ...]) -> Cross[Any]:
    """Return the table of an operator, whose bugs begin with the prefix."""
    view = type("View", (QuotientView,), {"quotients_of": staticmethod(quotients)})
    none = impossible(
        "a zero point of 0 is added, or taken away",
        *each_at(
            (f"{prefix}-zero-point-first", f"{prefix}-clamps-before-zero-point"),
            ("no zero point of the output",),
        ),
        *(
            (f"{prefix}-differences-of-raw-{name}", f"no zero point of {name.upper()}")
            for name in "ab"
        ),
    )
    own = (
        "clamps-int8-*",
        "clamps-uint8-*",
        "clamps-to-minus-127",
        "differences-wrap-*",
        "differences-saturate-*",
        *whole,
    )
    whole_bugs = tuple(f"{prefix}-{name}" for name in own)
    return Cross(view, QUOTIENTS, STRUCTURES, none, whole_bugs, MEETING)
