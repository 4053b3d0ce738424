"""ELEMENT_WISE_QUANTIZE_LINEAR: pairs of options in large calls, and calls of equal sizes.

There are also calls with NaN in each tail, each with a zero point.
"""

from fractions import Fraction

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import floats
from .._shared.covering import Row
from .._shared.floats import exactly
from .._shared.large_element_wise import (
    PARAMETERS,
    SIZES,
    add_later_scales,
    sizes_of_parameter,
)
from .._shared.large_pairs import (
    EIGHT,
    Call,
    add_equal_sizes,
    add_files,
    cycled,
    drawn,
    fractions,
    points,
    sizes_of,
)
from .._shared.near_ties import Draw
from .._shared.rounding import RANGES
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "QNT-1 QNT-2 QNT-3 QNT-4 QNT-5 QNT-8"
FACTORS = {
    "sizes": SIZES,
    "input": ("float32", "float16", "int32"),
    "output": EIGHT,
    "scale": PARAMETERS,
    "zero point": ("absent", *PARAMETERS),
    "signs": ("plus", "minus"),
}
DIVISORS = fractions(1, 3, "1/2", 5, 1, "1/3", 15)
UNITS = {"float32": Fraction(15015, 2**6), "float16": Fraction(3, 2**4), "int32": Fraction(30)}
INFINITY = {"float32": 0x7F800000, "float16": 0x7C00}


def word(value: Fraction, dtype: str) -> int:
    """Return the float nearest to a number."""
    return floats.encode(floats.nearest(exactly(value), dtype), dtype)


def elements(dtype: str, sizes: tuple[int, ...], number: int) -> Tensor:
    """Return multiples of half a unit, zeros, infinities and subnormal numbers."""
    draw, unit = Draw(2000 + number), UNITS[dtype] / 2
    if dtype == "int32":
        return drawn(dtype, sizes, 2000 + number, -3000, 3000)
    words = [word((draw.below(401) - 200) * unit, dtype) for _ in range(31)]
    sign = 1 << (31 if dtype == "float32" else 15)
    words += [INFINITY[dtype], INFINITY[dtype] | sign, 1, sign | 3, sign, 0]
    return cycled(dtype, sizes, words)


def made(row: Row, number: int) -> Call:
    """Return a call whose quotients are ties, whole numbers and far from both."""
    sizes, source, target = sizes_of(row["sizes"]), row["input"], row["output"]
    kind = "float32" if source == "int32" else source
    own = sizes_of_parameter(row["scale"], sizes)
    values = [
        UNITS[source] / each * (-1 if row["signs"] == "minus" and at % 2 == 0 else 1)
        for at, each in enumerate(DIVISORS)
    ]
    values = values[number % 2 :] if own == (1,) else values
    words = [word(value, kind) for value in values]
    given = {
        "InputTensor": elements(source, sizes, number),
        "ScaleTensor": cycled(kind, own, words),
    }
    if row["zero point"] != "absent":
        own = sizes_of_parameter(row["zero point"], sizes)
        given["ZeroPointTensor"] = points(target, own, number)
    return Call(given, {"OutputTensor": Request(target, sizes)})


topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
EQUAL = {"input": "float32", "output": "int8", "scale": "last axis", "zero point": "last axis"}
add_equal_sizes(topics, CLAUSE, made({**EQUAL, "sizes": "2x3x5", "signs": "plus"}, 1))
NANS = {"float32": 0x7FC00000, "float16": 0x7E00}


@topics.file("nan-in-tails")
def _nan_in_tails(topic: Topic) -> None:
    """Put NaN behind whole vectors of 4 to 64 elements, in rows and at ranks."""
    plans = ("7", "13", "27", "45", "3x23", "77", "2x3x11", "5x15", "141", "2x2x2x2x7")
    for number, plan in enumerate(plans):
        for dtype in ("float32", "float16")[number % 4 == 3 :][:1]:
            target, sizes = EIGHT[number % 2], sizes_of(plan)
            count, columns = _product(sizes), sizes[-1]
            places = {count - 1, columns - 1, count - 2}
            words = [word(Fraction(7 * at % 61 - 30, 2), dtype) for at in range(count)]
            words = [NANS[dtype] if at in places else each for at, each in enumerate(words)]
            point = points(target, (1,), number).words[0]
            given = {
                "InputTensor": cycled(dtype, sizes, words),
                "ScaleTensor": cycled(dtype, (1,), [word(Fraction(1), dtype)]),
                "ZeroPointTensor": cycled(target, (1,), [point]),
            }
            low, high = RANGES[target]
            why = "the pages do not say what becomes of NaN"
            listed = dict.fromkeys(sorted(places), ((low, point, high), why))
            name, text = f"nan-tail-{plan}-{dtype}", f"NaN at the end of rows of {columns}"
            asked = {"OutputTensor": Request(target, sizes)}
            topic.valid(
                name, text, "QNT-7 QNT-8", given, asked, None, "SpecialFloat", listed=listed
            )


def _product(sizes: tuple[int, ...]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


@topics.file("later-scales")
def _later_scales(topic: Topic) -> None:
    add_later_scales(
        topic, "QNT-6", cycled("float32", (2, 9), range(0x3F800000, 0x3F800012)), "int8"
    )
