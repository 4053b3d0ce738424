"""MATRIX_MULTIPLY_INTEGER: calls at corners."""

from .._shared.corner_matmul import calls
from .._shared.corners import add_corners
from .._shared.large_matmul import OPERANDS, sums
from ..topics import Files, Topic
from .cases import OPERATOR

topics = Files(OPERATOR, Topic)
add_corners(topics, "MMI-1 MMI-2 MMI-3 MMI-4 MMI-5 MMI-7", calls(OPERANDS, sums))
