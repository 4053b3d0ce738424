"""Value classes and structures of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

from .._shared.binary_structures import cross
from .meaning import quotients

OF_ITS_OWN = ("counts-a-term-of-0", "*-bit-multipliers")  # which need scales of their own
CROSS = cross("qadd", quotients, OF_ITS_OWN)
