"""CONVOLUTION_INTEGER by descs."""

from collections.abc import Iterator
from itertools import product

from .._shared.convolution_descs import NO_ELEMENTS, Descs, step_rank
from .._shared.strided_descs import of_parameters
from ..desc_topics import DescTopic
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, "int32", "CVI-3")
PACKED = SMALL = DESCS.make(is_bare=True)
POINTS = ("InputZeroPointTensor", "FilterZeroPointTensor")
at_ranks, typed = DESCS.at_ranks, DESCS.typed


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    parameters, windows = DESCS.rules()
    text, rule = "the zero points have 4 and 3 dimensions", "zero-points-dimension-count"
    wrong = {"FilterZeroPointTensor": [1, 2, 1]}
    parameters.refuse("zero-points-differ", text, "desc-rules-full", rule, wrong)
    yield from (parameters, windows)
    levels = DESCS.levels()
    for rank in (1, 2, 3):
        text, made = f"zero points of rank {rank} for tensors of rank 4", DESCS.make(4, rank)
        step_rank(levels, f"zero-points-{rank}", text, made, field=POINTS[0])
    yield levels
    yield DESCS.strides(lambda topic: None, {})
    yield of_parameters(OPERATOR, {"plain": DESCS.make(), "groups": DESCS.make(groups=2)})


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base)
    # One zero point without the other, which would have to have its rank.
    for (level, rank), field in product((("2_1", 3), ("4_0", 5)), POINTS):
        DESCS.refuse_rank(topic, level, field, rank, SMALL)
