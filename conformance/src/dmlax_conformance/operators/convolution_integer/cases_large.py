"""CONVOLUTION_INTEGER: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_convolutions import EQUAL, OTHERS, SUMS, sums
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "CVI-1 CVI-2 CVI-3 CVI-4 CVI-5"
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, SUMS, sums)
add_equal_sizes(topics, CLAUSE, sums(EQUAL, 1), OTHERS)
