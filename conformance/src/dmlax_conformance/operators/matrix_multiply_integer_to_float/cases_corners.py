"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: calls at corners."""

from .._shared.corner_matmul import calls
from .._shared.corners import add_corners, add_late_scales
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import EQUAL, FACTORS, made

topics = Files(OPERATOR, Topic)
add_corners(topics, "MMF-1 MMF-2 MMF-3 MMF-5 MMF-7", calls(FACTORS, made))
add_late_scales(
    topics, "MMF-11", made({**EQUAL, "sizes": "9x3 3x9"}, 1), ("AScaleTensor", "BScaleTensor")
)
