"""QUANTIZED_LINEAR_AVERAGE_POOLING: calls at corners."""

from .._shared.corner_pools import calls, ties
from .._shared.corners import add_corners, add_late_scales
from .._shared.large_pools import average
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import EQUAL, FACTORS

topics = Files(OPERATOR, Topic)
add_corners(topics, "AVG-1 AVG-2 AVG-3 AVG-4 AVG-5 AVG-10 AVG-11", calls(FACTORS, average))
add_corners(topics, "AVG-1 AVG-2 AVG-4 AVG-10", ties(has_windows=True), "corner-means")
NINE = average({**EQUAL, "sizes": "2x9x2x3"}, 1)
add_late_scales(topics, "AVG-7", NINE, ("InputScaleTensor", "OutputScaleTensor"))
