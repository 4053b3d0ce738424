"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD by descs."""

from collections.abc import Iterator

from .._shared.binary_descs import FOUR, NO_ELEMENTS, Descs
from ..desc_topics import DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR)
PACKED, SMALL = DESCS.make(FOUR), DESCS.make((1, 1, 1, 2))
at_ranks, typed, add_survivors = DESCS.at_ranks, DESCS.typed, DESCS.add_survivors


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    yield from DESCS.topics()
