"""Value classes and structures of quantized global average pooling."""

from .._shared.pooling_structures import LINES, cross_of_averages

CROSS = cross_of_averages("gavgpool", LINES)
