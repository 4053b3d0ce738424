"""QUANTIZED_LINEAR_CONVOLUTION: pairs of options in large calls, and calls of equal sizes."""

from .._shared.large_convolutions import EQUAL, OTHERS, RESCALED, rescaled
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "QLC-1 QLC-2 QLC-4 QLC-5 QLC-7 QLC-8"
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, RESCALED, rescaled)
add_equal_sizes(topics, CLAUSE, rescaled(EQUAL, 1), OTHERS)
