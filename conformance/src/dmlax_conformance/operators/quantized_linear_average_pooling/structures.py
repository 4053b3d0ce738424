"""Value classes and structures of QUANTIZED_LINEAR_AVERAGE_POOLING."""

from .._shared.pooling_structures import LINES, WINDOWS, cross_of_averages

CROSS = cross_of_averages("avgpool", {**LINES, **WINDOWS})
