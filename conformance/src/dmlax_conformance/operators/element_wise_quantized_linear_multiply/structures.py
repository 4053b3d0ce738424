"""Value classes and structures of ELEMENT_WISE_QUANTIZED_LINEAR_MULTIPLY."""

from .._shared.binary_structures import cross
from .meaning import quotients

OF_ITS_OWN = ("products-*", "*-bit-multiplier")  # which need sizes and scales of their own
CROSS = cross("qmul", quotients, OF_ITS_OWN)
