"""Quantized products of elements: pairs of options in large calls, and calls of equal sizes."""

from functools import partial

from .._shared.large_binary import EQUAL, FACTORS, OF_PRODUCTS, call_of
from .._shared.large_pairs import add_equal_sizes, add_files
from ..topics import Files, Topic
from .cases import OPERATOR

CLAUSE = "MUL-1 MUL-2 MUL-3 MUL-4 MUL-5 MUL-8"
topics = Files(OPERATOR, Topic)
make = partial(call_of, OF_PRODUCTS)
add_files(topics, CLAUSE, {**FACTORS, "scales": tuple(OF_PRODUCTS)}, make)
add_equal_sizes(topics, CLAUSE, make({**EQUAL, "scales": "a 78th"}, 1))
