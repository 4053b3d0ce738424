"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: pairs of options in large calls, and calls of equal sizes."""

from functools import partial

from .._shared.large_binary import EQUAL, FACTORS, OF_SUMS, call_of
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "ADD-1 ADD-2 ADD-3 ADD-4 ADD-5 ADD-8"
topics = Files(OPERATOR, Topic)
make = partial(call_of, OF_SUMS)
add_files(topics, CLAUSE, {**FACTORS, "scales": tuple(OF_SUMS)}, make)
add_equal_sizes(topics, CLAUSE, make({**EQUAL, "scales": "halves"}, 1))
