"""NONZERO_COORDINATES: calls written because a planted bug survived all others."""

from collections.abc import Iterator

from ...format.recipe import Recipe
from ...format.tensors import from_recipe
from ..topics import Topic
from .cases import OPERATOR, add


def topics() -> Iterator[Topic]:
    """Yield the file of this module."""
    topic = Topic(OPERATOR, "kills")
    full = from_recipe("uint8", (65_537,), Recipe(16, 1, 255))
    text = "65,537 non-zero elements; the file holds the first 32 rows"
    add(topic, "count-65537", text, "NZC-5", full, flags="Large Density")
    topic.shorten("count-65537", "OutputCoordinatesTensor", 32)
    yield topic
