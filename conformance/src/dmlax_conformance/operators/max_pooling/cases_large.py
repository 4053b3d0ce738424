"""MAX_POOLING: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_pairs import EIGHT, add_equal_sizes, add_files
from .._shared.large_pools import SHAPES, WINDOWS, maximum
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "MAX-1 MAX-2 MAX-3 MAX-4 MAX-5"
FACTORS = {
    "sizes": SHAPES,
    "window": tuple(WINDOWS),
    "type": EIGHT,
    "elements": ("full", "lowest", "about the middle", "highest", "lower half"),
}
EQUAL = {"sizes": "1x3x4x5", "window": "2 by strides", "type": "int8", "elements": "full"}
OTHERS = {"padding": {"StartPadding": [0, 0], "EndPadding": [1, 1]}}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, FACTORS, maximum)
add_equal_sizes(topics, CLAUSE, maximum(EQUAL, 1), OTHERS)
