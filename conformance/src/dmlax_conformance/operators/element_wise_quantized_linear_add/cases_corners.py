"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: calls at corners."""

from .._shared.corner_binary import calls
from .._shared.corners import add_corners
from .._shared.large_binary import FACTORS, OF_SUMS
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import make

topics = Files(OPERATOR, Topic)
add_corners(
    topics,
    "ADD-1 ADD-2 ADD-3 ADD-4 ADD-5 ADD-8",
    calls({**FACTORS, "scales": tuple(OF_SUMS)}, make),
)
