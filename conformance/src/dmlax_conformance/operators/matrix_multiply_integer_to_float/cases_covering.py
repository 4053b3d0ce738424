"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: every value class at every structure, in few calls.

The rows of A are alike, or the columns of B, so that each column, or row, has one sum; its scale
and bias make a result of one class.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...format.recipe import Cycle
from ...format.tensors import Tensor, from_recipe
from .._shared import floats
from .._shared.floats import FORMATS, Real, encode, exactly
from .._shared.matmul_cases import words_of
from .._shared.matmul_covering import Plan, alike, middles, plans, shaped, weighted
from .._shared.near_ties import Draw
from .._shared.rounding import RANGES
from ..topics import Files, bits
from .cases import OPERATOR, FloatTopic
from .sums import classes_of

topics = Files(OPERATOR, FloatTopic)
STEPS = (1, 16, 120)  # what equal rows, or columns, hold, so that few weights make any sum
NEXT = 1 + Fraction(1, 2**23)
KINDS = (
    *("rounded down", "rounded up", "tie, even below", "tie, even above", "near tie", "exact"),
    *("subnormal", "overflows above", "overflows below", "vanishes above", "vanishes below"),
    *("zero", "zero of a negative scale", "float64", "tie, even above", "subnormal", "float64"),
)
OF_BIAS = (
    *("bias cancels", "bias decides a tie", "bias is lost", "bias of NaN", "bias of plus infinity"),
    *("bias of minus infinity", "bias of minus zero", "bias decides a tie"),
)
SPECIAL = {
    "bias of NaN": Real(False, kind="nan"),
    "bias of plus infinity": Real(False, kind="inf"),
    "bias of minus infinity": Real(True, kind="inf"),
    "bias of minus zero": Real(True),
}
FAR = {"float32": (120, -149), "float16": (8, -30)}  # powers of two that overflow and vanish


class Entry(NamedTuple):
    """The sum of a row or a column, its scale, and its bias."""

    total: int
    scale: Fraction
    bias: Real


def _entry(kind: str, total: int, sa: Fraction, has_bias: bool, dtype: str, draw: Draw) -> Entry:
    """Return a scale, and a bias, that give the sum a result of the kind."""
    found = Entry(total, Fraction(1), Real(False))
    for _ in range(400):
        found = _drawn(kind, total, sa, has_bias, dtype, draw)
        addend = found.bias if has_bias else None
        if kind in classes_of(total, sa * found.scale, addend, dtype):
            break
    return found


def _drawn(kind: str, total: int, sa: Fraction, has_bias: bool, dtype: str, draw: Draw) -> Entry:
    power = -(abs(total) or 1).bit_length() + draw.below(9)
    mantissa = draw.odd(24 - draw.below(24))
    over, under = FAR[dtype]
    power = over + 8 if kind.startswith("overflows") else power
    power -= mantissa.bit_length()
    if kind.startswith("vanishes"):
        mantissa, power = 1, under
    elif kind == "subnormal":
        mantissa, power = draw.below(9) + 1, 1 - FORMATS[dtype].bias - 23 - draw.below(12)
        power = max(power, -149)
    sign = -1 if "below" in kind.split(", ")[0] or "negative" in kind else 1
    sign = sign * (-1 if total < 0 else 1) if total else sign
    if kind not in ("overflows above", "overflows below") and total and "vanishes" not in kind:
        sign = (1, -1)[draw.below(2)]
    exact = exactly(floats.scaled(mantissa, power))
    scale = floats.nearest(exact, "float32").value or Fraction(1)
    return Entry(total, sign * scale, _bias(kind, total * sa * scale * sign, has_bias, dtype, draw))


def _bias(kind: str, product: Fraction, has_bias: bool, dtype: str, draw: Draw) -> Real:
    """Return a bias of the kind; most others are as large as the product, or zero."""
    if not has_bias:
        return Real(False)
    if kind in SPECIAL or kind == "zero":
        return SPECIAL.get(kind, SPECIAL["bias of minus zero"])
    if kind == "bias cancels":
        return floats.nearest(exactly(-product), dtype)
    if kind in ("bias decides a tie", "bias is lost"):
        tiny, sign = floats.scaled(1, -80 if dtype == "float32" else -24), (1, -1)[draw.below(2)]
        return exactly(tiny * (_away_from_even(product, dtype) if "tie" in kind else sign))
    if not draw.below(2) or "tie" in kind or kind == "exact":
        return Real(False)
    nearest = floats.nearest(exactly(-product), dtype)
    if nearest.kind != "finite":
        return Real(False)
    near = nearest.value * Fraction(draw.below(50) - 25, 16)
    return floats.nearest(exactly(near), dtype) if abs(near) < 60000 else Real(False)


def _away_from_even(product: Fraction, dtype: str) -> int:
    """Return the sign of what takes a tie to the odd neighbour."""
    steps, one = floats.in_last_places(abs(product), FORMATS[dtype])
    return (1 if product > 0 else -1) * (-1 if steps // one % 2 else 1)


@cache
def _sticky(dtype: str) -> tuple[tuple[int, Fraction], ...]:
    """Return sums and scales whose product with `NEXT` float64 takes for a tie, and rounds away."""
    if dtype == "float16":
        scale = 1 - Fraction(1, 2**23)
        return tuple((total, scale) for total in range(2051, 4096, 4 * 97))
    return tuple(_found_sticky())


def _found_sticky() -> Iterator[tuple[int, Fraction]]:
    """Yield sums of 13 bits: the low bits of the three mantissas' product are hardly off a half."""
    first, draw, left = 2**23 + 1, Draw(77), 6
    while left:
        total, side = draw.odd(13), (1, -1)[draw.below(2)]
        for away in range(1, 90, 2):
            size = 13 + 48 - 25
            wanted = (1 << size - 1) + side * away
            second = wanted * pow(total * first, -1, 1 << size) % (1 << size)
            product = total * first * second
            if 2**23 <= second < 2**24 and product.bit_length() == size + 24 and _is_lost(product):
                left -= 1
                yield total, Fraction(second, 2**23)
                break


def _is_lost(product: int) -> bool:
    """Return whether float64, and then float32, round a product to another number than once."""
    once = floats.nearest(exactly(Fraction(product)), "float32")
    twice = floats.nearest(floats.nearest(exactly(Fraction(product)), "float64"), "float32")
    return once != twice


def _operands(plan: Plan, number: int, dtype: str) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Return operands and parameters; each row, or column, makes a result of one kind."""
    of_rows, has_bias, draw = "rows" in plan.words, "nobias" not in plan.words, Draw(4700 + number)
    side = 0 if of_rows else 1  # which operand has an entry for each row or column
    points = [plan.point(each, middles(plan.types[each])) for each in (0, 1)]
    count = plan.shape.a[-2] if of_rows else plan.shape.b[-1]
    is_long = plan.terms > 9
    taps = [1 if is_long else STEPS[at % 3] for at in range(plan.terms)]
    low, high = RANGES[plan.types[side]]
    zero = (points[side] or [0])[0]
    kinds = (*KINDS, *OF_BIAS) if has_bias else KINDS
    sa, entries = Fraction(1, 4) * (NEXT if "next" in plan.words else 1), list[Entry]()
    for at in range(count):
        kind = kinds[(at + 7 * number) % len(kinds)]
        if "next" in plan.words and ("tie," in kind or kind in ("exact", "bias decides a tie")):
            kind = "rounded up"  # which a mantissa of many bits leaves possible
        total = sum((draw.below(high - low - 4) + low - zero) * tap for tap in taps[:3])
        total = {"z": 0, "v": 1}.get(kind[0], total or 1)
        total = total * len(taps) if is_long else total
        if kind == "float64" and "next" in plan.words and plan.terms in range(3, 10):
            total, scale = _sticky(dtype)[draw.below(len(_sticky(dtype)))]
            entries.append(Entry(total, scale * 4, Real(False)))
        elif kind == "float64":
            other = "bias decides a tie" if has_bias and sa == Fraction(1, 4) else "rounded down"
            entries.append(_entry(other, total, sa, has_bias, dtype, draw))
        else:
            entries.append(_entry(kind, total, sa, has_bias, dtype, draw))
    same = alike(plan, 1 - side, taps, points[1 - side] or [0])
    own = (
        _long(plan, entries, points[1])
        if is_long
        else weighted(plan, side, [e.total for e in entries], taps, points[side])
    )
    scales = words_of([e.scale for e in entries])
    sizes = (count, 1) if of_rows else (count,)
    each, other = ("sa", "sb") if of_rows else ("sb", "sa")
    given: dict[str, Any] = {"za": points[0], "zb": points[1], other: [sa]}
    given[each] = bits("float32", sizes, scales)
    if has_bias:
        words = [encode(e.bias, dtype) for e in entries]
        given["bias"] = bits(dtype, *shaped(plan, words, of_rows))
    return (own, same, given) if of_rows else (same, own, given)


def _long(plan: Plan, entries: list[Entry], points: list[int] | None) -> Tensor:
    """Return B whose columns hold one value each."""
    centres = np.resize(points or [0], len(entries)).tolist()
    words = [e.total // plan.terms + z for e, z in zip(entries, centres, strict=True)]
    low, high = RANGES[plan.types[1]]
    kept = tuple(min(max(word, low), high) for word in words)
    return from_recipe(plan.types[1], plan.b, Cycle(kept))


COLUMNS = """
2x3 3x71 uint8 uint8 one one float32
3 3x71 int8 int8 one one float16
2x3 3x71 uint8 int8 each one float32 nobias next
3x3 3x71 int8 uint8 one each float16 nobias next
3 3x71 uint8 int8 one one float32
1x3 3x151 uint8 uint8 one one float16
1x3 3x151 int8 int8 one each float32
2x1x3 3x39 int8 uint8 one one float16
9x1x3 3x23 uint8 uint8 one one float32
1x9 2x9x39 int8 int8 each one float16
5x1x3 5x3x25 uint8 int8 one one float32
"""
MORE = """
3 3x71 uint8 int8 one one float32
1x3 3x155 uint8 uint8 one each float16
3 3x47 int8 uint8 one one float16
1x3 3x153 uint8 int8 one one float32
"""
BATCHES = """
9x1x3 9x3x23 int8 uint8 one one float32
1x2x3 9x3x23 uint8 uint8 each one float16
2x1x1x3 1x2x3x29 uint8 int8 one one float32
1x2x1x3 3x47 int8 int8 each one float16
2x1x1x3 3x47 int8 uint8 one one float32
2x3 9x3x23 int8 int8 one each float32
9x2x3 9x3x23 uint8 int8 each one float16
2x1x3 5x1x3x29 uint8 uint8 one one float16
"""
ROWS = """
71x3 3x1 uint8 uint8 each one float32 rows
71x3 3x2 int8 int8 one one float16 rows
71x3 3x1 uint8 int8 one one float32 rows nobias next
69x3 3 int8 uint8 one each float16 rows nobias next
31x3 3 int8 int8 one one float32 rows
31x8 8x7 uint8 int8 one one float16 rows
23x3 3x9 int8 uint8 one one float32 rows
3x29x3 3x1 uint8 uint8 one one float16 rows
89x3 3x1 int8 uint8 each one float16 rows
87x3 3x1 uint8 uint8 one one float32 rows
71x3 3x1 uint8 int8 each one float32 rows
71x3 3 uint8 uint8 one one float32 rows
97x3 3 int8 int8 one one float16 rows
"""
LONG = """
2x301 301x71 uint8 uint8 one one float16
1x301 301x47 uint8 int8 one each float32
2x300 300x47 int8 int8 one one float32 nobias
1x1 1x71 uint8 uint8 one one float32
1x8 8x47 uint8 int8 one each float32
1x1 1x71 uint8 int8 one one float16
1x1 1x71 int8 int8 one one float32
1x301 301x47 uint8 uint8 one each float16
1x1 1x47 int8 uint8 absent one float16
2x1 1x47 uint8 int8 one absent float16 nobias
"""
CLAUSE = "MMF-1 MMF-2 MMF-3 MMF-4 MMF-5 MMF-6 MMF-7 MMF-8 MMF-11"
FLAGS = "Tie NearTieFloat32 NearTieFloat64 SpecialFloat OddScale Rounding"


@topics.file("covering")
def _covering(topic: FloatTopic) -> None:
    _add(topic, "covering", COLUMNS, 0)


@topics.file("covering-more")
def _covering_more(topic: FloatTopic) -> None:
    _add(topic, "covering-more", MORE, 70)


@topics.file("covering-batches")
def _covering_batches(topic: FloatTopic) -> None:
    _add(topic, "covering-batches", BATCHES, 90)


@topics.file("covering-rows")
def _covering_rows(topic: FloatTopic) -> None:
    _add(topic, "covering-rows", ROWS, 20)


@topics.file("covering-products")
def _covering_products(topic: FloatTopic) -> None:
    _add(topic, "covering-products", LONG, 40)


def _add(topic: FloatTopic, name: str, text: str, first: int) -> None:
    for number, plan in plans(text):
        dtype = "float16" if "float16" in plan.words else "float32"
        a, b, own = _operands(plan, first + number, dtype)
        topic.add(f"{name}-{number}", plan.about, CLAUSE, a, b, own, FLAGS, dtype)
