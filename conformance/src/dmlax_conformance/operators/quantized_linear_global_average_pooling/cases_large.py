"""Quantized global average pooling: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_pairs import add_equal_sizes, add_files
from .._shared.large_pools import IMAGES, PARAMETERS, average
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "GAP-1 GAP-2 GAP-3 GAP-4 GAP-5"
FACTORS = {"sizes": IMAGES, **PARAMETERS}
EQUAL = {
    "sizes": "2x3x4x5",
    "types": "uint8 int8",
    "input zero point": "each",
    "output zero point": "each",
    "input scale": "each",
    "output scale": "each",
    "elements": "narrow",
    "signs": "plus",
}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, average)
add_equal_sizes(topics, CLAUSE, average(EQUAL, 1))
