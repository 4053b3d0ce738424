"""Value classes and structures of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from .._shared.binary_structures import cross
from .meaning import quotients

OF_ITS_OWN = ("counts-a-term-of-0",)  # which needs scales that are far apart
CROSS = cross("qadd", quotients, OF_ITS_OWN)
