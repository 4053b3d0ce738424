"""DYNAMIC_QUANTIZE_LINEAR: pairs of options in large calls, and calls of equal sizes."""

from fractions import Fraction

from ...format.tensors import Tensor
from ...format.vectors import Request
from .._shared import floats
from .._shared.covering import Row
from .._shared.floats import exactly
from .._shared.large_pairs import EIGHT, Call, add_equal_sizes, add_files, cycled, sizes_of
from .._shared.near_ties import Draw
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "DYN-1 DYN-2 DYN-4 DYN-5 DYN-6 DYN-8"
RANGES = {  # the ends, in halves of a step
    "both signs": (-2 * 77, 2 * 178),
    "both signs, uneven": (-2 * 203 - 1, 2 * 52 - 1),
    "negative": (-2 * 255, -3),
    "positive": (3, 2 * 255),
    "few negative": (-1, 2 * 255 - 1),
    "few positive": (-2 * 254 - 1, 1),
}
FACTORS = {
    "sizes": (
        *("523", "69x9", "5x131", "3x1x17x13"),
        *("3x3x1x7x11", "3x1x3x7x1x11", "1x3x1x3x7x1x11", "3x1x3x1x7x1x1x11"),
    ),
    "input": ("float32", "float16"),
    "output": EIGHT,
    "range": tuple(RANGES),
    "step": ("a power of two", "a third", "wide", "narrow"),
}
STEPS = {  # of FLOAT32; FLOAT16 has powers of two
    "a power of two": Fraction(1, 2**4),
    "a third": Fraction(1, 3),
    "wide": Fraction(100),
    "narrow": Fraction(1, 2**9) * Fraction(7, 5),
}


def elements(dtype: str, sizes: tuple[int, ...], row: Row, number: int) -> Tensor:
    """Return drawn multiples of half a step, both ends of the range among them."""
    draw, (low, high) = Draw(1000 + number), RANGES[row["range"]]
    steps = [low + draw.below(high - low + 1) for _ in range(29)]
    at = draw.below(27)
    steps[at : at + 2] = [low, high] if number % 2 else [high, low]
    step = (STEPS[row["step"]] if dtype == "float32" else Fraction(number % 3 + 1, 2**5)) / 2
    words = (floats.nearest(exactly(each * step), dtype) for each in steps)
    return cycled(dtype, sizes, [floats.encode(each, dtype) for each in words])


def made(row: Row, number: int) -> Call:
    """Return a call with a range of a kind."""
    sizes, target = sizes_of(row["sizes"]), row["output"]
    x = elements(row["input"], sizes, row, number)
    return Call(
        {"InputTensor": x},
        {
            "OutputTensor": Request(target, sizes),
            "OutputScaleTensor": Request("float32", (1,)),
            "OutputZeroPointTensor": Request(target, (1,)),
        },
    )


topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
EQUAL = {"input": "float32", "output": "uint8", "range": "both signs", "step": "a third"}
add_equal_sizes(topics, CLAUSE, made({**EQUAL, "sizes": "2x3x5"}, 1))
