"""QUANTIZED_LINEAR_AVERAGE_POOLING: every value class at every structure, in few calls."""

from .._shared.pooling_covering import FAMILIES, add_averages
from ..topics import Files
from .cases import OPERATOR, AverageTopic

topics = Files(OPERATOR, AverageTopic)
LINES = """
1x1x1x71 1x3 uint8 int8 one one
1x1x1x79 1x3 int8 uint8 absent one dilated
1x1x39x2 3x1 int8 int8 one absent
1x1x71 3 uint8 uint8 one one
1x2x2x2x9 1x1x3 int8 int8 one one
7x2x1x5 1x3 uint8 int8 each one sxs
5x3x2x3 1x3 int8 uint8 each each sys
1x71x1x1 1x3 uint8 uint8 each each sxs sys
1x137x1x1 3x1 int8 int8 one one
1x47x1x2 3x1 uint8 int8 one each sys
1x1x3x15 3x3 uint8 uint8 one one padded counted
1x11x2x2 2x3 int8 int8 each one dilated
1x3x2x7 3x3 uint8 int8 one each
2x1x1x9 5x13 int8 uint8 one one
1x3x5x3 3x3 int8 int8 absent absent padded
1x1x71x1 3x1 uint8 int8 one one
1x1x39x2 1x3 uint8 int8 one one
1x139x1x1 1x3 uint8 int8 one one
1x1x1x9 6x11 uint8 int8 one one
1x137x1x1 1x3 int8 uint8 one one
1x1x67 3 int8 int8 one one
1x2x1x2x9 1x1x3 uint8 uint8 one one
1x1x1x47 1x3 int8 int8 absent absent
"""
CLAUSES = "1 2 3 4 5 6 8 10 11"

for _family in FAMILIES:
    topics.file(f"covering-{_family}")(add_averages(CLAUSES, _family, LINES))
