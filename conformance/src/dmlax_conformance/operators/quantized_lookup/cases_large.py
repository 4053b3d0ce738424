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
        *("523", "9x67", "69x9", "3x1x17x13", "5x3x41", "24x24"),
        *("3x3x1x7x11", "3x1x3x7x1x11", "1x3x1x3x7x1x11", "3x1x3x1x7x1x1x11"),
    ),
    "input": EIGHT,
    "table": EIGHT,
    "entries": ("all", "few"),
}


def made(row: Row, number: int) -> Call:
    """Return a call with a drawn table, of the whole range or of its ends."""
    source, target = row["input"], row["table"]
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
EQUAL = made({"sizes": "2x3x5", "input": "int8", "table": "uint8", "entries": "all"}, 1)
TABLE = drawn("uint8", (256,), 4600, *RANGES["uint8"])
add_equal_sizes(topics, CLAUSE, EQUAL, tensors={"TableTensor": TABLE})
