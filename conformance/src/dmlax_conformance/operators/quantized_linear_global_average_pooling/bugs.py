"""Planted bugs of quantized global average pooling."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...suite.bugs.permitted import ROUNDINGS
from ...suite.bugs.pooling import read_image
from ...suite.bugs.record import Bug
from ...suite.bugs.steps import Call
from .._shared import pooling_bugs as shared
from .._shared.planted_bugs import Steps, plant
from .._shared.pooling_bugs import PARTS
from .._shared.pooling_floats import in_turn

__all__ = ["OPERATOR", "PARTS", "PERMITTED", "RESULT", "RULES", "derived", "written"]

OPERATOR, LABEL = "quantized_linear_global_average_pooling", "GAP"
RULES = shared.average_rules(OPERATOR, LABEL, has_windows=False)
RESULT = "GAP-1"
PERMITTED = (
    ("GAP-2", "average", "rounding", ROUNDINGS),
    ("GAP-1", "average", "mean", {"float64-in-turn": in_turn("float64")}),
)


def derived() -> Iterator[Bug]:
    """Yield the bugs that follow from the operator's fields."""
    yield from shared.average_readings(OPERATOR, LABEL, {})


def written() -> Iterator[Bug]:
    """Yield the others."""
    yield from shared.of_averages(OPERATOR, LABEL, has_windows=False)
    yield from plant(OPERATOR, STEPS, {}, {})


def _without_last(call: Call) -> Mapping[str, Any]:
    """Leave out the last row or column, unless it is the only one."""
    whole = dict(read_image(call))
    whole["WindowSize"] = [max(size - 1, 1) for size in whole["WindowSize"]]
    return {**whole, "Strides": [size + 1 for size in whole["WindowSize"]]}


STEPS: Steps = {("GAP-1", "gather", "window"): {"last-row-lost": _without_last}}
