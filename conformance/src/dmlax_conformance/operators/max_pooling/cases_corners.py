"""MAX_POOLING: calls at corners."""

from .._shared.corner_pools import calls
from .._shared.corners import add_corners
from .._shared.large_pools import maximum
from ..topics import Files, Topic
from .cases import OPERATOR
from .cases_large import FACTORS

topics = Files(OPERATOR, Topic)
add_corners(topics, "MAX-1 MAX-2 MAX-3 MAX-4 MAX-5", calls(FACTORS, maximum))
