"""A quantized convolution with an addend: pairs of options in large calls, and equal sizes."""

from .._shared.large_convolutions import ADDED, EQUAL, OTHERS, added
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "QCA-1 QCA-2 QCA-7 QCA-16 QCA-17 QCA-19"
topics = Files(OPERATOR, Topic)
add_files(topics, CLAUSE, ADDED, added)
add_equal_sizes(topics, CLAUSE, added({**EQUAL, "output": "int8 uint8"}, 1), OTHERS)
