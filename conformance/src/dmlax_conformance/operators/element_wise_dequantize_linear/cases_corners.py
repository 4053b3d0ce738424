"""ELEMENT_WISE_DEQUANTIZE_LINEAR: calls at corners."""

from .._shared.corner_element_wise import calls
from .._shared.corners import add_corners
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import CLAUSE, FACTORS, made

topics = Files(OPERATOR, Topic)
add_corners(topics, CLAUSE, calls(FACTORS, made))
