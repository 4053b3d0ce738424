"""Quantized global average pooling: calls at corners."""

from .._shared.corner_pools import WHOLE, calls, ties
from .._shared.corners import add_corners, add_late_scales
from .._shared.large_pools import average
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import EQUAL, FACTORS

topics = Files(OPERATOR, Topic)
add_corners(topics, "GAP-1 GAP-2 GAP-3 GAP-4 GAP-5", calls(FACTORS, average, WHOLE))
add_corners(topics, "GAP-1 GAP-2 GAP-4", ties(has_windows=False), "corner-means")
NINE = average({**EQUAL, "sizes": "2x9x2x3"}, 1)
add_late_scales(topics, "GAP-7", NINE, ("InputScaleTensor", "OutputScaleTensor"))
