"""NONZERO_COORDINATES: every data type in calls of many elements, and sizes at corners."""

from collections.abc import Iterator

from ...format.recipe import Recipe
from ...format.tensors import DTYPES, Tensor, from_recipe
from .._shared.corners import add_corners
from .._shared.large_pairs import Call, cycled, sizes_of
from .._shared.near_ties import Draw
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import CLAUSE, outputs
from .meaning import effective_rank
from .rules import COUNTED

SIZES = (
    *("65", "131", "4133", "1x4133", "3x1400", "1400x3", "67x65", "2x3x4x5x6", "9x1x1x9"),
    *("1x1x33", "33x1x1", "2x2x2x2x2x2x2x2", "70x71", "5x1x131", "1x1x1x1x1x1x1x67"),
    *("67x1x1x1x1x1x1x1", "3x5x7x11", "17x16x15"),
)
EMPTY = ("0", "3x0", "0x2x3", "2x0x1x4")
FLOATS = {  # one, NaN, the least, infinity and a number of the last bit
    "float16": (0x3C00, 0xFE01, 1, 0xFC00, 0x0100),
    "float32": (0x3F800000, 0xFF800001, 1, 0xFF800000, 0x00010000),
    "float64": (0x3FF << 52, 0xFFF << 52 | 1, 1, 0xFFF << 52, 1 << 32),
}


def elements(dtype: str, sizes: tuple[int, ...], number: int) -> Tensor:
    """Return elements of which one in a few is not zero; wide ones in one byte alone."""
    draw, one_in = Draw(900 + number), number % 5 + 1
    if dtype == "bool":
        return from_recipe(dtype, sizes, Recipe(900 + number, 0, 1, max(one_in - 1, 1)))
    sign = 1 << (DTYPES[dtype].width - 1)
    kinds = [1 << 8 * at for at in range(DTYPES[dtype].width // 8)]
    zeros = [0, sign] if dtype in FLOATS else [0]
    words = FLOATS.get(dtype, tuple(kinds))
    made = [
        words[draw.below(len(words))] if draw.below(one_in) == 0 else zeros[draw.below(len(zeros))]
        for _ in range(37)
    ]
    return cycled(dtype, sizes, made)


def calls() -> Iterator[tuple[str, Call]]:
    """Yield a call of each data type at three of the sizes, and of no elements."""
    every = ((at, dtype, turn) for at, dtype in enumerate(COUNTED) for turn in range(3))
    plans = [(dtype, SIZES[(3 * at + 7 * turn) % len(SIZES)]) for at, dtype, turn in every]
    plans += [(COUNTED[5 * at % len(COUNTED)], sizes) for at, sizes in enumerate(EMPTY)]
    for number, (dtype, sizes) in enumerate(plans):
        x = elements(dtype, sizes_of(sizes), number)
        least = max(effective_rank(x.sizes), 1)
        width = least if number % 2 else len(x.sizes)
        yield f"{dtype} {sizes}, {width} columns", Call({"InputTensor": x}, outputs(x, width))
    x = from_recipe("uint8", (409, 487), Recipe(999, 0, 255, 5))
    yield "four blocks of 65,536 elements", Call({"InputTensor": x}, outputs(x, 2))


topics = Files(OPERATOR, Topic)
add_corners(topics, CLAUSE, calls())
