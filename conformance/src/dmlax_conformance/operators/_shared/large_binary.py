"""Pairs of options of operators on two quantized tensors, in calls of many elements."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...format.tensors import Tensor
from ...format.vectors import Request
from .binary import broadcast_sizes
from .covering import Row
from .large_pairs import (
    EIGHT,
    PER_UNIT,
    Call,
    cycled,
    drawn,
    operand,
    points,
    sizes_of,
    words_of,
)
from .rounding import RANGES

Scales = Mapping[str, tuple[Fraction | str, ...]]
SIZES = (
    *("523 523", "3x191 3x191", "67x9 67x9", "3x1x3x7x1x11 3x1x3x7x1x11"),
    *("611 1", "9x69 69", "69 9x69", "69x1 1x9", "9x1 9x69"),
    *("3x3x1x7x11 3x3x1x7x11", "1x3x1x3x7x1x11 3x1x3x7x1x11", "3x1x3x1x7x1x1x11 3x1x7x1x1x11"),
)
FACTORS: dict[str, Any] = {
    "sizes": SIZES,
    **dict.fromkeys(("A", "B", "output"), EIGHT),
    "zero point of A": ("absent", "one"),
    "zero point of B": ("absent", "one"),
    "output zero point": ("absent", "one"),
    "signs": ("+ + +", "- + +", "+ - +", "+ + -"),
    "elements": ("full", "lowest", "highest"),
}
OF_SUMS: Scales = {  # what both scales over the output's are
    "halves": ("1/2", "1/2"),
    "sixths": ("1/6", "1/3"),
    "apart": ("5/2", "1/182"),
    "far apart": ("1/2", Fraction(1, 2**40)),
}
OF_PRODUCTS: Scales = {
    "half": ("1/2",),
    "a 78th": ("1/78",),
    "a 6th": ("1/6",),
    "a 210th": ("1/210",),
}
EQUAL = {
    "sizes": "2x3x5 3x5",
    "A": "uint8",
    "B": "int8",
    "output": "int8",
    "zero point of A": "one",
    "zero point of B": "one",
    "output zero point": "one",
    "signs": "+ + +",
    "elements": "full",
}


def of_an_end(dtype: str, sizes: tuple[int, ...], seed: int, end: str) -> Tensor:
    """Return the two lowest, or highest, values of a type."""
    low, high = RANGES[dtype]
    return drawn(dtype, sizes, seed, *((low, low + 1) if end == "lowest" else (high - 1, high)))


def call_of(scales: Scales, row: Row, number: int) -> Call:
    """Return a call of a row of options."""
    a, b = (sizes_of(each) for each in row["sizes"].split())
    types, target = (row["A"], row["B"]), row["output"]
    given = dict[str, Tensor]()
    spread = "narrow" if row["scales"] in ("half", "a 6th") else "full"
    for at, (side, sizes) in enumerate((("A", a), ("B", b))):
        kind = row[f"zero point of {side}"]
        seed, dtype = 6000 + 10 * number + at, types[at]
        end = row["elements"] if at == number % 2 else "full"
        given[f"{side}Tensor"] = (
            operand(dtype, sizes, seed, spread, kind == "one")
            if end == "full"
            else of_an_end(dtype, sizes, seed, end)
        )
        if kind == "one":
            given[f"{side}ZeroPointTensor"] = points(dtype, (1,), number + at, spread)
    given |= _scales(scales[row["scales"]], row["signs"])
    if row["output zero point"] == "one":
        given["OutputZeroPointTensor"] = points(target, (1,), number)
    return Call(given, {"OutputTensor": Request(target, broadcast_sizes(a, b))})


def _scales(ratios: Sequence[Any], signs: str) -> dict[str, Tensor]:
    """Return the three scales, by their ratios to the output's."""
    unit = Fraction(PER_UNIT, 2**12)
    second = Fraction(ratios[1]) * unit if len(ratios) > 1 else Fraction(1)
    pairs = zip((Fraction(ratios[0]) * unit, second, unit), signs.split(), strict=True)
    words = [words_of([value], "minus" if sign == "-" else "plus") for value, sign in pairs]
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    return {k: cycled("float32", (1,), own) for k, own in zip(names, words, strict=True)}
