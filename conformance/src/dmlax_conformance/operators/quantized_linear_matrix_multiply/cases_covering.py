"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: every value class at every structure, in few calls.

The rows of A are alike, or the columns of B, so that the sum of each column, or row, is known: it,
or the bias, makes the accumulator of one class.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ...format.recipe import Recipe
from ...format.tensors import Tensor, from_recipe
from .._shared.convolution_cases import Parameters
from .._shared.matmul_cases import words_of
from .._shared.matmul_covering import (
    Plan,
    alike,
    middles,
    plans,
    shaped,
    sums,
    sums_of_lines,
    weighted,
)
from .._shared.near_ties import Draw
from .._shared.rescale_covering import KINDS, SX, SY, Half, half_over, member
from .._shared.rounding import RANGES
from ..topics import Files, bits, ints
from .cases import OPERATOR, QuantizedTopic

topics = Files(OPERATOR, QuantizedTopic)
TOP, BOTTOM = 2**31 - 1, -(2**31)
STEPS = (1, 16, 120)  # what equal rows, or columns, hold, so that few weights make any sum


class Entry(NamedTuple):
    """The bias of a row or a column without its sum, and the scale for its accumulator."""

    accumulator: int
    scale: Fraction


def _beyond_32_bits(total: int, at: int) -> Entry:
    """Return the accumulator of an end of the range as bias, which a tie divides from that end."""
    end = TOP if total > 0 else BOTTOM
    tie = Fraction(2 * (at % 40) + 41, 2)
    return Entry(end + total, tie / abs(end + Fraction(total, 2)) * SY / SX)


def _entries(plan: Plan, zero_points: list[int], number: int) -> tuple[list[Entry], int]:
    """Return an entry of each kind in turn, and what all accumulators have in common."""
    draw, words, found = Draw(4400 + number), plan.words, list[Entry]()
    divisor = 7 if "near" in words else (105, 117, 15)[number % 3]
    shift = 17 * ("near" in words)
    scale = Half(1, divisor).scale(shift) * (2**40 if "far" in words else 1)
    for at, zero in enumerate(zero_points):
        kind = KINDS[(at + 5 * number) % len(KINDS)]
        if "one" not in words:
            found.append(Entry(*member(kind, words, zero, draw)))
        elif shift:
            found.append(Entry((0, 1, -1, 7 - at)[at % 4], scale))
        else:
            found.append(Entry(half_over(kind, divisor, words, zero, draw).accumulator, scale))
    common = (-1) ** number * Half(61, divisor).accumulator << shift
    return found, common if shift else 0


def _operands(plan: Plan, number: int) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return operands and parameters; each row, or column, makes an accumulator of one kind."""
    of_rows, dtype = "rows" in plan.words, "int8" if "int8" in plan.words else "uint8"
    side = 0 if of_rows else 1  # which operand has an entry for each row or column
    points = [plan.point(each, middles(plan.types[each])) for each in (0, 1)]
    count = plan.shape.a[-2] if of_rows else plan.shape.b[-1]
    zero = -3 if dtype == "int8" else 121
    rows = plan.shape.a[-2] if "zys" in plan.words else 1
    zys = [zero + 2 * (at % 3) for at in range(rows)]
    zeros = [0] if "nozy" in plan.words else zys
    entries, common = _entries(
        plan, np.resize(zeros if of_rows else zeros[:1], count).tolist(), number
    )
    taps = [STEPS[at % 3] if plan.terms < 10 else 17 for at in range(plan.terms)]
    same = alike(plan, 1 - side, taps, points[1 - side] or [0])
    has_bias = "nobias" not in plan.words
    if has_bias and not common:
        own = from_recipe(
            plan.types[side], (plan.a, plan.b)[side], Recipe(number, *RANGES[plan.types[side]])
        )
    else:
        own = weighted(plan, side, [entry.accumulator for entry in entries], taps, points[side])
    given: dict[str, Any] = {
        "za": points[0],
        "zb": points[1],
        "zy": None if "nozy" in plan.words else zys,
    }
    if has_bias:
        found = sums_of_lines(plan, side, own, points[side] or [0], taps)
        for at in range(number % 7, count, 11) if "one" not in plan.words else ():
            entries[at] = _beyond_32_bits(found[at], at)
        bias = [common or e.accumulator - total for e, total in zip(entries, found, strict=True)]
        given["bias"] = ints("int32", *shaped(plan, bias, of_rows))
    given |= _scales(plan, [entry.scale for entry in entries])
    return (own, same, given) if of_rows else (same, own, given)


def _scales(plan: Plan, scales: list[Fraction]) -> Parameters:
    """Return the scales: one, or those of rows of A or of the output, or of columns of B."""
    own = scales[:1] if "one" in plan.words else scales
    found = {"sa": [SX], "sb": [SX], "sy": [SY]}
    if "sys" in plan.words:
        found |= {"sa": [SX], "sb": [Fraction(1)], "sy": [SY / each for each in own]}
    else:
        found["sa" if "rows" in plan.words else "sb"] = own
    return {
        key: bits("float32", _sizes(key, len(values)), words_of(values))
        for key, values in found.items()
    }


def _sizes(key: str, count: int) -> tuple[int, ...]:
    return () if count == 1 else (count,) if key == "sb" else (count, 1)


COLUMNS = """
2x3 3x71 uint8 uint8 one each
1x3 3x79 int8 int8 absent one int8 nobias
2x3 3x71 uint8 int8 each one nobias
2x3 3x139 int8 uint8 one one nozy
3 3x71 uint8 int8 one absent
2x1x3 3x39 int8 uint8 one one int8
9x1x3 3x47 uint8 uint8 one one
2x2x1x9 1x2x9x31 int8 int8 one each
2x8 9x8x15 uint8 int8 absent one
"""
MORE = """
2x1x3 2x3x47 uint8 uint8 one each int8
9x1x301 301x31 uint8 int8 one one
1x9 2x9x39 int8 int8 each one int8 nozy
1x3 3x151 uint8 int8 one each
1x3 3x139 int8 int8 one absent
1x1x3 5x3x31 uint8 uint8 one one nobias
2x301 301x71 uint8 int8 one each
2x2x3 2x3x71 int8 int8 each one
2x1x1x3 3x71 int8 int8 each one int8
1x3 3x151 uint8 uint8 one one int8
3 3x47 int8 uint8 one one
1x1 1x71 uint8 uint8 one each
1x8 8x47 uint8 uint8 absent each
9x1x3 3x31 int8 uint8 one one int8
1x301 301x47 uint8 int8 one each
2x3 3x32 uint8 int8 one each
"""
ROWS = """
71x3 3x1 uint8 uint8 each one rows
67x3 3x2 int8 int8 absent one rows int8 nobias
71x3 3 uint8 int8 one absent rows
31x3 3x9 int8 uint8 one one rows zys
23x9 9x2 uint8 int8 each each rows sys
2x19x3 3x2 int8 int8 one one rows int8 sys zys
43x3 3x1 uint8 int8 one one rows int8 sys zys
71x3 3x1 uint8 uint8 one one rows nobias nozy
71x3 3 int8 uint8 each one rows
47x3 3 uint8 uint8 one one rows int8
71x1 1x2 int8 uint8 one one rows
83x3 3x1 uint8 int8 one one rows int8 sys
51x3 3x1 int8 int8 one one rows sys
"""
PIXELS = """
1x3 3x71 uint8 uint8 one one one
1x3 3x79 int8 int8 one one one int8 nobias
1x3 3x71 uint8 int8 one absent one near
71x3 3x1 int8 uint8 one one rows one near int8
2x3 3x47 uint8 uint8 one one one far
67x3 3x2 int8 int8 one one rows one nobias
3x3 3x31 int8 uint8 one one one near nozy int8
9x1x9 9x15 int8 int8 one one one near
31x9 9x2 int8 int8 one one rows one near
"""
SUMS = """
3x841 841x31 uint8 uint8 one one
67x841 841x3 uint8 uint8 one each
9x1x841 841x7 uint8 int8 one each
"""
CLAUSE = "QMM-1 QMM-2 QMM-3 QMM-4 QMM-5 QMM-6 QMM-7 QMM-8 QMM-9"
FLAGS = "Tie NearTieFloat32 NearTieFloat64 LargeAccumulator Saturation OddScale"


@topics.file("covering")
def _covering(topic: QuantizedTopic) -> None:
    _add(topic, "covering", COLUMNS)


@topics.file("covering-more")
def _covering_more(topic: QuantizedTopic) -> None:
    _add(topic, "covering-more", MORE, 60)


@topics.file("covering-rows")
def _covering_rows(topic: QuantizedTopic) -> None:
    _add(topic, "covering-rows", ROWS, 20)


@topics.file("covering-one-scale")
def _covering_one_scale(topic: QuantizedTopic) -> None:
    _add(topic, "covering-one-scale", PIXELS, 40)
    for number, plan in plans(SUMS):
        a, b, own = sums(plan, number)
        own |= {"sa": [Fraction(1, 2**18)], "sb": [1], "zy": [number]}
        topic.add(f"covering-sums-{number}", plan.about, CLAUSE, a, b, own, FLAGS)


def _add(topic: QuantizedTopic, name: str, text: str, first: int = 0) -> None:
    for number, plan in plans(text):
        a, b, own = _operands(plan, first + number)
        dtype = "int8" if "int8" in plan.words else "uint8"
        topic.add(f"{name}-{number}", plan.about, CLAUSE, a, b, own, FLAGS, dtype)
