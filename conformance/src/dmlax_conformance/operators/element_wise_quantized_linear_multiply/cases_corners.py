"""Quantized products of elements: calls at corners."""

from .._shared.corner_binary import calls
from .._shared.corners import add_corners
from .._shared.large_binary import FACTORS, OF_PRODUCTS
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import make

topics = Files(OPERATOR, Topic)
add_corners(
    topics,
    "MUL-1 MUL-2 MUL-3 MUL-4 MUL-5 MUL-8",
    calls({**FACTORS, "scales": tuple(OF_PRODUCTS)}, make),
)
