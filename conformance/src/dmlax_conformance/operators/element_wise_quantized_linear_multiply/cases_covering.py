"""ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY: every value class at every structure, in few calls."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from operator import mul
from typing import Any

import numpy as np

from .._shared.binary_cases import BinaryTopic, Pair
from .._shared.binary_covering import (
    OTHER,
    PLANS,
    QUARTERS,
    Family,
    add_covering,
    add_repeated,
    misleading,
    near_tie,
)
from .._shared.floats import round_half_even
from ..topics import Files
from . import cases
from .cases import OPERATOR

topics = Files(OPERATOR, BinaryTopic)


def _plain(number: int, side: int) -> Family:
    """Return products that are 7/4 of what changes."""
    return Family((0.5, 0.5, 1), OTHER, QUARTERS)


def _far(number: int, side: int) -> Family:
    return Family((2.0**20, 2.0**-2, 2.0**-12), OTHER, (1, -1, 0, 5, -9, 127, -126))


def _near(number: int, side: int) -> Family:
    return near_tie(_near_ties(), number, side)


@cache
def _near_ties() -> list[tuple[tuple[int, ...], Pair]]:
    """Return near ties that every formula misplaces, in float32 too."""
    found = misleading(cases.near_float64(), mul, "float64")
    return [each for each in found if all(_errs(formula, *each) for formula in IN_FLOAT32)]


IN_FLOAT32: tuple[Callable[..., Any], ...] = (
    lambda x, y, sa, sb, sy: (x * sa) * (y * sb) / sy,
    lambda x, y, sa, sb, sy: x * y * (sa / sy * sb),
)


def _errs(formula: Callable[..., Any], words: tuple[int, ...], pair: Pair) -> bool:
    """Return whether a formula in float32 rounds to another integer."""
    scales = np.array(words, np.uint32).view(np.float32)
    values = (*np.array(pair, np.float32), *scales)
    exact = formula(*(Fraction(float(value)) for value in values))
    return int(np.rint(formula(*values))) != round_half_even(exact)


ONE_VALUE = "3x43 1 uint8 int8 uint8 one one one"
topics.file("covering-plain")(add_covering("plain", _plain))
topics.file("covering-far")(add_covering("far", _far))
topics.file("covering-near")(add_covering("near", _near, (*PLANS, ONE_VALUE)))
topics.file("covering-repeated")(add_repeated(0.5, 0.25, 8))
