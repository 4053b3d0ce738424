"""MATRIX_MULTIPLY_INTEGER: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_matmul import OPERANDS, sums
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "MMI-1 MMI-2 MMI-3 MMI-4 MMI-5 MMI-7"
EQUAL = {
    "sizes": "2x3x5 5x4",
    "types": "uint8 int8",
    "zero point of A": "rows",
    "zero point of B": "columns",
    "elements": "full",
}
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, OPERANDS, sums)
add_equal_sizes(topics, CLAUSE, sums(EQUAL, 1))
