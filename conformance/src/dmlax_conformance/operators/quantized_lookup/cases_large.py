"""QUANTIZED_LOOKUP: pairs of options in large calls, and calls of equal sizes."""

from ...format.vectors import Request
from .._shared.covering import Row
from .._shared.large_pairs import EIGHT, Call, add_equal_sizes, add_files, drawn, sizes_of
from .._shared.rounding import RANGES
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "LUT-1 LUT-2 LUT-4 LUT-5"
FACTORS = {
    "sizes": (
        *("523", "9x67", "67x9", "2x5x7x9", "5x3x41", "2x3x2x3x5x5", "3x2x3x1x2x2x3x5"),
        *("24x24", "600x1", "3x2x5x2x3x2x3"),
    ),
    "types": tuple(f"{x} {y}" for x in EIGHT for y in EIGHT),
    "entries": ("all", "few"),
}


def made(row: Row, number: int) -> Call:
    """Return a call with a drawn table, of the whole range or of its ends."""
    source, target = row["types"].split()
    low, high = RANGES[target]
    low = low if row["entries"] == "all" else high - 3
    sizes = sizes_of(row["sizes"])
    given = {
        "InputTensor": drawn(source, sizes, 4000 + number, *RANGES[source]),
        "TableTensor": drawn(target, (256,), 4500 + number, low, high),
    }
    return Call(given, {"OutputTensor": Request(target, sizes)})


topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, made)
EQUAL = made({"sizes": "2x3x5", "types": "int8 uint8", "entries": "all"}, 1)
TABLE = drawn("uint8", (256,), 4600, *RANGES["uint8"])
add_equal_sizes(topics, CLAUSE, EQUAL, tensors={"TableTensor": TABLE})
