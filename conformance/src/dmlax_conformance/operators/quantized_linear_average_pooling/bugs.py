"""Planted bugs of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from collections.abc import Iterator

import numpy as np

from ...suite.bugs.convolution import pad_zeros
from ...suite.bugs.descs import DescRules
from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.pooling import count_elements
from ...suite.bugs.record import Bug
from ...suite.bugs.steps import Array
from .._shared import pooling_bugs as shared
from .._shared.convolution import Windows
from .._shared.floats import NAN
from .._shared.planted_bugs import Steps, plant
from .._shared.pooling_bugs import IMAGE, OUTPUT, PARTS
from .._shared.pooling_floats import exact_mean, in_turn
from .._shared.pooling_rules import POINTS

__all__ = ["DESCS", "OPERATOR", "PARTS", "PERMITTED", "RESULT", "RULES", "derived", "written"]

OPERATOR, LABEL = "quantized_linear_average_pooling", "AVG"
RULES = shared.average_rules(OPERATOR, LABEL, has_windows=True)
DESCS = DescRules(
    OPERATOR,
    {"avgpool-same-dimension-count": shared.ALIKE_RANKS},
    "data-type:inputs dimension-count:outputs sizes-count:outputs"
    " sizes-positive:outputs element-limit:outputs",
    {"DataType": ((IMAGE, POINTS[0]), (OUTPUT, POINTS[1])), "DimensionCount": ((IMAGE, OUTPUT),)},
)
RESULT = "AVG-1"
PERMITTED = (
    ("AVG-2", "average", "rounding", ROUNDINGS),
    ("AVG-1", "average", "mean", {"float64-in-turn": in_turn("float64")}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    windows = {name: ("AVG-10", role) for name, role in shared.WINDOW_ROLES.items()}
    yield from shared.average_readings(OPERATOR, LABEL, windows)


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_averages(OPERATOR, LABEL, has_windows=True)
    yield from shared.of_windows(OPERATOR, "AVG-10 AVG-11", "gather")
    yield from plant(OPERATOR, STEPS, {}, {})


def _same_at_the_border(inside: Array, include: bool) -> Array:
    counts = count_elements(inside, include)
    return np.full_like(counts, counts.max(initial=0))


def _raw_zero(centred: Array, windows: Windows, zero: Array) -> Array:
    """Pad the image as it is by 0."""
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.asarray(pad_zeros(centred + zero, windows, 0) - np.pad(zero, around, "edge"))


def _edge(centred: Array, windows: Windows, zero: Array) -> Array:
    around = [(0, 0), (0, 0), *zip(windows.start, windows.end, strict=True)]
    return np.pad(centred, around, "edge")


STEPS: Steps = {
    ("AVG-11", "gather", "count"): {
        "padding-counts": lambda inside, include: count_elements(inside, True),
        "padding-never-counts": lambda inside, include: count_elements(inside, False),
        "include-padding-inverted": lambda inside, include: count_elements(inside, not include),
        "n-the-same-at-the-border": _same_at_the_border,
        "n-one-more": lambda inside, include: count_elements(inside, include) + 1,
    },
    ("AVG-11", "gather", "pad"): {
        "padding-is-raw-zero": _raw_zero,
        "padding-repeats-the-edge": _edge,
        "padding-is-one": lambda centred, windows, zero: pad_zeros(centred - 1, windows, 0) + 1,
    },
    ("AVG-12", "average", "mean"): {
        "no-elements-is-nan": lambda values, count, sx, sy: (
            exact_mean(values, count, sx, sy) if count else NAN
        ),
    },
}
