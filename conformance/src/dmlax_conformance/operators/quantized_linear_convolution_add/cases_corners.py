"""A quantized convolution with an addend: calls at corners."""

from .._shared.corner_convolutions import calls, channels
from .._shared.corners import add_corners, add_late_scales
from .._shared.large_convolutions import ADDED, EQUAL, added
from ..topics import Files, Topic
from .cases import OPERATOR

SCALES = (
    *("InputScaleTensor", "FilterScaleTensor", "OutputScaleTensor"),
    *("AddendScaleTensor", "SumScaleTensor"),
)
topics = Files(OPERATOR, Topic)
add_corners(topics, "QCA-1 QCA-2 QCA-7 QCA-16 QCA-17 QCA-19", calls(ADDED, added), files=2)
add_late_scales(topics, "QCA-13 QCA-22", channels(added, {**EQUAL, "output": "int8 uint8"}), SCALES)
