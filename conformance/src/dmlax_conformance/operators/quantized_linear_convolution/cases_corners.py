"""QUANTIZED_LINEAR_CONVOLUTION: calls at corners."""

from .._shared.corner_convolutions import calls, channels
from .._shared.corners import add_corners, add_late_scales
from .._shared.large_convolutions import EQUAL, RESCALED, rescaled
from ..topics import Files, Topic
from .cases import OPERATOR

SCALES = ("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor")
topics = Files(OPERATOR, Topic)
add_corners(topics, "QLC-1 QLC-2 QLC-4 QLC-5 QLC-7 QLC-8", calls(RESCALED, rescaled))
add_late_scales(topics, "QLC-13", channels(rescaled, EQUAL), SCALES)
