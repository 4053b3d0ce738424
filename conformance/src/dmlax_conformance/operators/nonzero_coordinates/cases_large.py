"""NONZERO_COORDINATES: pairs of options in large calls, and calls of equal sizes."""

from math import prod

from ...format.recipe import Recipe
from ...format.tensors import DTYPES, Tensor, from_recipe
from ...format.vectors import Request
from .._shared.covering import Row
from .._shared.large_pairs import Call, add_equal_sizes, add_files, cycled, drawn, sizes_of
from .._shared.near_ties import Draw
from ..topics import Files, Topic
from .cases import OPERATOR
from .meaning import effective_rank

CLAUSE = "NZC-1 NZC-2 NZC-3 NZC-4 NZC-5"
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float16")
FACTORS = {
    "sizes": (*("1523", "467x3", "5x331", "2x5x17x9", "1x1x9x133", "3x3x7x1x11x3"),),
    "input": TYPES,
    "columns": ("all", "fewest"),
    "found": ("all", "one in 2", "one in 3"),
}
FLOATS = {
    "float32": (0x3F800000, 0x7FC00000, 1, 0x80000001, 0x7F800000, 0xBF800000, 0x3F000000),
    "float16": (0x3C00, 0x7E00, 1, 0x8001, 0x7C00, 0xBC00, 0x3800),
}


def elements(row: Row, number: int) -> Tensor:
    """Return drawn integers, or floats of each kind among zeros of both signs."""
    dtype, sizes = row["input"], sizes_of(row["sizes"])
    one_in = {"all": 1, "one in 2": 2, "one in 3": 3}[row["found"]]
    if dtype in FLOATS:
        draw, zeros = Draw(100 + number), (0, 1 << (DTYPES[dtype].width - 1))
        words = [
            FLOATS[dtype][draw.below(7)] if draw.below(one_in) == 0 else zeros[draw.below(2)]
            for _ in range(59)
        ]
        return cycled(dtype, sizes, words)
    low, high = DTYPES[dtype].low, DTYPES[dtype].high
    low = 1 if one_in == 1 or low == 0 else low
    return from_recipe(dtype, sizes, Recipe(100 + number, low, high, one_in))


def outputs(x: Tensor, width: int) -> dict[str, Request]:
    """Ask for as many rows as elements."""
    return {
        "OutputCountTensor": Request("uint32", (1,)),
        "OutputCoordinatesTensor": Request("uint32", (prod(x.sizes), width)),
    }


def made(row: Row, number: int) -> Call:
    """Return a call of many rows."""
    x = elements(row, number)
    fewest = max(effective_rank(x.sizes), 1)
    return Call({"InputTensor": x}, outputs(x, len(x.sizes) if row["columns"] == "all" else fewest))


topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
EQUAL = {"sizes": "3x5x7", "input": "int8", "columns": "all", "found": "one in 2"}
add_equal_sizes(topics, CLAUSE, made(EQUAL, 1), tensors={"InputTensor": elements(EQUAL, 2)})


@topics.file("rows-beyond-65536")
def _rows_beyond_65536(topic: Topic) -> None:
    """Add tables whose every row counts, with more rows than 16 bits number."""
    topic.has_digests = True
    for name, dtype, sizes in (
        ("rank-1", "uint8", (65_600,)),
        ("rank-2", "int32", (257, 263)),
        ("rank-4", "uint8", (3, 41, 23, 25)),
    ):
        x = drawn(dtype, sizes, len(sizes), 1, 100)
        text = f"{prod(sizes)} elements, none of them zero, and every row"
        given, asked = {"InputTensor": x}, outputs(x, len(sizes))
        topic.valid(f"rows-{name}", text, "NZC-1 NZC-4 NZC-5", given, asked, None, "Large Density")
