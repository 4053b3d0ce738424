"""QUANTIZED_LINEAR_AVERAGE_POOLING: pairs of options in large calls, and calls of equal sizes."""

from typing import Any

from .._shared.large_pairs import add_equal_sizes, add_files
from .._shared.large_pools import PARAMETERS, SHAPES, WINDOWS, average
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "AVG-1 AVG-2 AVG-3 AVG-4 AVG-5 AVG-10 AVG-11"
FACTORS = {
    "sizes": SHAPES,
    "window": tuple(WINDOWS),
    "padding counts": ("yes", "no"),
    **PARAMETERS,
}
EQUAL = {
    "sizes": "1x3x4x5",
    "window": "2 by strides",
    "padding counts": "yes",
    "types": "uint8 int8",
    "input zero point": "each",
    "output zero point": "each",
    "input scale": "each",
    "output scale": "each",
    "elements": "narrow",
    "signs": "plus",
}
OTHERS: dict[str, dict[str, Any]] = {
    "padding": {"StartPadding": [0, 0], "EndPadding": [1, 1]},
    "divisors": {"IncludePadding": False},
}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, average)
add_equal_sizes(topics, CLAUSE, average(EQUAL, 1), OTHERS)
