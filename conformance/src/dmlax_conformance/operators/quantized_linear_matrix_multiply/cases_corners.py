"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: calls at corners."""

from .._shared.corner_matmul import calls
from .._shared.corners import add_corners, add_late_scales
from .._shared.large_matmul import rescaled
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import EQUAL, FACTORS

topics = Files(OPERATOR, Topic)
add_corners(topics, "QMM-1 QMM-2 QMM-3 QMM-5 QMM-7 QMM-9", calls(FACTORS, rescaled))
add_late_scales(
    topics,
    "QMM-12",
    rescaled({**EQUAL, "sizes": "9x3 3x9"}, 1),
    ("AScaleTensor", "BScaleTensor", "OutputScaleTensor"),
)
