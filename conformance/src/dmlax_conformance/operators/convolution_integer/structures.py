"""Value classes and structures of CONVOLUTION_INTEGER."""

from .._shared.convolution_structures import STRUCTURES, ConvolutionView
from .._shared.cross import LINES, Cross, Meeting, impossible
from .._shared.sum_structures import CLASSES

IMPOSSIBLE = impossible(
    "there is no difference",
    ("intconv-input-difference-wraps", "no input zero point"),
    ("intconv-filter-difference-wraps", "no filter zero point"),
)
OF_ITS_OWN = ("intconv-only-*", "intconv-*-lost", "intconv-sums-saturate", "intconv-*-by-input")
MEETING = Meeting(
    ("above 16 bits", "below 16 bits", "within 16 bits"),
    (
        *("rank *", "* input, * filter", "* output", "*zero point*", "*scale*", "*bias"),
        *("depthwise", "strides", "dilations", "padding", "addend *", "one tap"),
    ),
    LINES,
    (("rank 3", "rows *"),),
)
CROSS: Cross[ConvolutionView] = Cross(
    ConvolutionView, CLASSES, STRUCTURES, IMPOSSIBLE, OF_ITS_OWN, MEETING
)
