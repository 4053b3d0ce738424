"""CONVOLUTION_INTEGER by descs."""

from collections.abc import Iterator, Mapping
from typing import Any

from .._shared.convolution_cases import parameter
from .._shared.convolution_descs import (
    NO_ELEMENTS,
    Descs,
    convolution,
    exchanged,
    operands,
    plain,
    replaced,
    zero_points,
)
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

OPERATOR = "convolution_integer"


def integer(
    rank: int = 4,
    parameters: int | None = None,
    is_bare: bool = False,
    groups: int = 1,
    options: Mapping[str, Any] | None = None,
) -> Call:
    """Return a call with both zero points, or with none."""
    given = operands(rank, groups) | ({} if is_bare else zero_points(parameters or rank))
    return convolution(OPERATOR, given, "int32", options or plain(rank, groups))


PACKED = SMALL = integer(is_bare=True)
POINTS = {"InputZeroPointTensor": "InputTensor", "FilterZeroPointTensor": "FilterTensor"}
DESCS = Descs(OPERATOR, integer, POINTS, [*POINTS][:1], [*POINTS][1:], "CVI-3")


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts."""
    return integer(ranks["InputTensor"], ranks["InputZeroPointTensor"], is_bare)


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    return {"int8-uint8": exchanged(integer()), "uint8-int8": integer()}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    parameters, windows = DESCS.rules()
    text, field = "the zero points have 4 and 3 dimensions", "FilterZeroPointTensor"
    changed, rule = integer().described(field, [1, 2, 1]), "zero-points-dimension-count"
    parameters.refused("desc-zero-points-differ", text, "desc-rules-full", rule, field, changed)
    yield from (parameters, windows)
    levels = DESCS.levels()
    for rank in (1, 2, 3):
        text, made = f"zero points of rank {rank} for tensors of rank 4", integer(4, rank)
        DESCS.step(levels, f"zero-points-{rank}", text, made, field="InputZeroPointTensor")
    yield levels
    yield DESCS.strides(lambda topic: None, {})


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    DESCS.add_survivors(topic, base)
    # One zero point without the other, which would have to have its rank.
    points = {
        "InputZeroPointTensor": parameter([120], "uint8"),
        "FilterZeroPointTensor": parameter([-5], "int8"),
    }
    for level, rank in (("2_1", 3), ("4_0", 5)):
        for field, tensor in points.items():
            DESCS.refuse_rank(topic, level, field, rank, replaced(SMALL, {field: tensor}))
