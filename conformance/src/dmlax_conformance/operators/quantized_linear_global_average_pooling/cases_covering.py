"""Quantized global average pooling: every value class at every structure, in few calls."""

from .._shared.pooling_covering import FAMILIES, add_averages
from ..topics import Files
from .cases import OPERATOR, GlobalTopic

topics = Files(OPERATOR, GlobalTopic)
LINES = """
1x71x1x1 1x3 uint8 int8 one one
1x79x1 3 int8 uint8 absent one
1x39x1x1 1x3 int8 int8 each absent sxs
1x71x1 3 uint8 uint8 one each sys
1x47x1x1x1 1x1x3 int8 int8 one one
7x15x1x1 1x3 uint8 int8 each one sxs
5x23x1x1 3x1 int8 uint8 each each sys
1x151x1x1 1x3 uint8 uint8 each each sxs sys
31x1x1x1 1x3 uint8 int8 one absent
29x1x1x1x1 1x3x1 int8 int8 one one
3x1x1x1 5x13 uint8 uint8 one one
3x31x1x1 3x3 uint8 uint8 one one
1x23x1x1 5x13 int8 uint8 one one
1x139x1x1 1x3 int8 int8 absent one
"""
CLAUSES = "1 2 3 4 5 6 8"

for _family in FAMILIES:
    topics.file(f"covering-{_family}")(add_averages(CLAUSES, _family, LINES))
