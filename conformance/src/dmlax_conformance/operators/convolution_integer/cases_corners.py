"""CONVOLUTION_INTEGER: calls at corners, and a matrix of zero points."""

from .._shared.corner_convolutions import calls
from .._shared.corners import add_corners
from .._shared.large_convolutions import SUMS, sums
from ..topics import Files, Topic, ints
from .cases import OPERATOR

topics = Files(OPERATOR, Topic)


def _add_matrix(topic: Topic) -> None:
    matrix = {"FilterZeroPointTensor": ints("int8", (2, 2), range(4))}
    text = "as many zero points as filters, along two axes"
    topic.invalid("corner-matrix", text, "CVI-5", "corners-10", "sizes", matrix)


add_corners(topics, "CVI-1 CVI-2 CVI-3 CVI-4 CVI-5", calls(SUMS, sums), last=_add_matrix)
